#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/device/device.h"
#include "model/memory_plan.h"
#include "parallel/runtime/pipeline_plan.h"
#include "trainer/backend.h"
#include "trainer/job/job.h"

namespace penstock {

/// What a pipeline rank holds and takes.
struct RankMemory {
  std::vector<std::string> units;  ///< by stage: "embedding to mlp_1"
  model::MemoryPlan device;        ///< every named piece of every arena
};

/// What a run of the job takes (contract C3), and how much work a step is.
struct MemoryReport {
  std::vector<RankMemory> ranks;  ///< by pipeline rank; the same in every replica
  int64_t replicas = 1;
  std::string schedule;
  int64_t micro_batches = 1;   ///< of a replica and step
  size_t host_batches = 0;     ///< token buffers in host memory, a rank
  size_t outside = 0;          ///< program, libraries, token files: what a process holds before its arenas
  int64_t parameters = 0;      ///< without vocabulary padding
  double flops_per_token = 0;  ///< model FLOPs of training one token
  int64_t tokens_per_step = 0;

  /// Device and host bytes of one rank and what its process holds beside them.
  size_t total(size_t rank) const { return ranks[rank].device.bytes() + host_batches + outside; }
};

/// A rank's host memory for tokens, targets, positions and starts of two steps (StepBatches reads one ahead),
/// and the sample ids.
size_t host_batch_bytes(const Job& job);

/// The job's run on this machine: pure arithmetic but for `outside`, which is what this process holds now.
/// Call it before arenas are made. UsageError where the backend cannot run the model.
MemoryReport memory_report(const Job& job, Backend& backend, const runtime::PipelinePlan& plan);

/// The plan breaks parallel.memory_limit_gib, or what the machine has; exit code ExitCode::usage.
class MemoryLimitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// Throws MemoryLimitError with the numbers if a rank would need more than the job allows or, where it leaves
/// that to the program ("auto"), than this machine has left: for all ranks, if they are `in_one_process`.
/// Call it before arenas are made.
void check_memory_limit(const MemoryReport& report, const Job& job, const Device& device,
                        bool in_one_process);

nlohmann::ordered_json to_json(const MemoryReport& report);
/// Of each rank every arena and piece to the byte, then what lies outside, then the sum.
std::string table(const MemoryReport& report);
/// One line for the start of a run.
std::string summary(const MemoryReport& report, const Device& device, double matmul_roof);

}  // namespace penstock
