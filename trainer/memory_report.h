#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "kernels/device/device.h"
#include "model/memory_plan.h"
#include "trainer/job/job.h"

namespace penstock {

/// What a run of the job takes (contract C3), and how much work a step is.
struct MemoryReport {
  model::MemoryPlan device;    ///< every named piece of every arena
  size_t host_batches = 0;     ///< token buffers in host memory
  size_t outside = 0;          ///< program, libraries, token files: what a process holds before its arenas
  int64_t parameters = 0;      ///< without vocabulary padding
  double flops_per_token = 0;  ///< model FLOPs of training one token
  int64_t tokens_per_step = 0;

  size_t total() const { return device.bytes() + host_batches + outside; }
};

/// `outside`: the process's resident memory before its arenas were made, measured by the caller.
MemoryReport memory_report(const Job& job, model::MemoryPlan device, size_t outside);

nlohmann::ordered_json to_json(const MemoryReport& report);
/// Every arena and piece to the byte, then what lies outside, then the sum.
std::string table(const MemoryReport& report);
/// One line for the start of a run.
std::string summary(const MemoryReport& report, const Device& device, double matmul_roof);

}  // namespace penstock
