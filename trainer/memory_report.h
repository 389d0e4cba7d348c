#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/device/device.h"
#include "model/memory_plan.h"
#include "parallel/runtime/pipeline_plan.h"
#include "trainer/backend.h"
#include "trainer/job/job.h"

namespace penstock {

/// Bytes that are counted for what a rank's process holds outside its arenas: program, libraries, page
/// tables, mapped files. What it really is differs from start to start by tens of MiB, and a limit must not:
/// this is a fixed reserve, above what was seen (15 to 48 MiB). docs/job-file.md states it
/// (parallel.memory_limit_gib).
inline constexpr size_t outside_reserve = size_t{64} << 20;

/// What a pipeline rank holds and takes.
struct RankMemory {
  std::vector<std::string> units;  ///< by stage: "embedding to mlp_1"
  model::MemoryPlan device;        ///< every named piece of every arena
  /// Host memory for a copy of what it saves (in replica 0; with a sharded optimizer in each), while it is
  /// written.
  size_t snapshot = 0;
};

/// What a run of the job takes (contract C3), and how much work a step is.
struct MemoryReport {
  std::vector<RankMemory> ranks;  ///< by pipeline rank; the same in every replica
  int64_t replicas = 1;
  std::string schedule;
  int64_t micro_batches = 1;   ///< of a replica and step
  size_t host_batches = 0;     ///< token buffers in host memory, a rank
  size_t outside = 0;          ///< measured, for people: what this process holds before its arenas
  int64_t parameters = 0;      ///< without vocabulary padding
  double flops_per_token = 0;  ///< model FLOPs of training one token
  int64_t tokens_per_step = 0;

  /// What a limit counts: device and host bytes of one rank, and the reserve for what lies outside.
  size_t total(size_t rank) const { return ranks[rank].device.bytes() + host(rank) + outside_reserve; }
  /// Host memory of one rank.
  size_t host(size_t rank) const { return host_batches + ranks[rank].snapshot; }
};

/// A rank's host memory for tokens, targets, positions and starts of two steps (StepBatches reads one ahead),
/// and the sample ids.
size_t host_batch_bytes(const Job& job);

/// The job's run on this machine: pure arithmetic but for `outside`, which is what this process holds now.
/// Call it before arenas are made. UsageError where the backend cannot run the model.
MemoryReport memory_report(const Job& job, Backend& backend, const runtime::PipelinePlan& plan);

nlohmann::ordered_json to_json(const MemoryReport& report);
/// Of each rank every arena and piece to the byte, then what lies outside, then the sum.
std::string table(const MemoryReport& report);
/// One line for the start of a run.
std::string summary(const MemoryReport& report, const Device& device, double matmul_roof);

}  // namespace penstock
