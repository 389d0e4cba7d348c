#include "trainer/memory_report.h"

#include <fmt/format.h>

#include "kernels/cpu/host_memory.h"
#include "model/call_sites.h"
#include "model/flops.h"
#include "model/parameter.h"
#include "trainer/process_memory.h"

namespace penstock {
namespace {

double mebibytes(size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

double gibibytes(size_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// tokens, targets, positions and starts of two steps (StepBatches reads one ahead), and the sample ids.
size_t host_batch_bytes(const Job& job) {
  const auto micro_batches = static_cast<size_t>(job.micro_batches());
  const auto sequences = static_cast<size_t>(job.batch.micro);
  const auto tokens = sequences * static_cast<size_t>(job.model.sequence_length);
  return 2 * micro_batches * (4 * tokens * sizeof(int32_t) + sequences * sizeof(int64_t));
}

}  // namespace

MemoryReport memory_report(const Job& job, Backend& backend) {
  const model::RankConfig config = whole_model_config(job, job.micro_batches());
  model::check(config);
  MemoryReport report;
  report.device = model::plan_memory(config, model::make_call_sites(backend.math, config));
  report.host_batches = host_batch_bytes(job);
  report.outside = process_memory().resident;
  report.parameters = model::parameter_count(job.model);
  report.flops_per_token = model::training_flops_per_token(job.model);
  report.tokens_per_step = job.batch.global * job.model.sequence_length;
  return report;
}

void check_memory_limit(const MemoryReport& report, const Job& job, const Device& device) {
  if (job.parallel.memory_limit_gib <= 0) {
    if (device.kind() != DeviceKind::cpu) return;
    // All arenas together: each alone might fit, and the run be refused with the others touched already.
    const size_t wanted = report.device.bytes() + report.host_batches;
    const cpu::AvailableMemory available = cpu::available_memory();
    if (wanted <= available.bytes) return;
    throw MemoryLimitError(fmt::format(
        "the run needs {:.3f} GiB ({} bytes), but only {:.3f} GiB ({} bytes) are available ({}); "
        "lower batch.micro, set recompute.mode, or make the model smaller (`penstock plan` shows "
        "every piece)",
        gibibytes(wanted), wanted, gibibytes(available.bytes), available.bytes, available.source));
  }
  const double needed = gibibytes(report.total());
  if (needed <= job.parallel.memory_limit_gib) return;
  throw MemoryLimitError(
      fmt::format("the run needs {:.3f} GiB ({} bytes), but parallel.memory_limit_gib is {:g}; lower "
                  "batch.micro, set recompute.mode, or raise the limit (`penstock plan` shows every "
                  "piece)",
                  needed, report.total(), job.parallel.memory_limit_gib));
}

nlohmann::ordered_json to_json(const MemoryReport& report) {
  nlohmann::ordered_json arenas;
  for (int index = 0; index < arena_tag_count; ++index) {
    const auto tag = static_cast<ArenaTag>(index);
    nlohmann::ordered_json pieces = nlohmann::ordered_json::object();
    for (const model::PlannedAllocation& piece : report.device.allocations) {
      if (piece.tag == tag) pieces[piece.name] = piece.bytes;
    }
    arenas[std::string(name_of(tag))] = {{"bytes", report.device.bytes(tag)}, {"allocations", pieces}};
  }
  return {{"schema", 1},
          {"ranks", 1},
          {"parameters", report.parameters},
          {"flops_per_token", report.flops_per_token},
          {"tokens_per_step", report.tokens_per_step},
          {"memory",
           {{"device_bytes", report.device.bytes()},
            {"arenas", arenas},
            {"host_batches_bytes", report.host_batches},
            {"outside_bytes", report.outside},
            {"total_bytes", report.total()}}}};
}

std::string table(const MemoryReport& report) {
  std::string text =
      fmt::format("{} parameters, {} tokens a step, {:.4g} FLOP a token\n\n           bytes  what\n",
                  report.parameters, report.tokens_per_step, report.flops_per_token);
  text += report.device.table();
  text += fmt::format("{:>16} host batches\n", report.host_batches);
  text += fmt::format(
      "{:>16} outside the accounts: program, libraries, mapped token files (measured in this process)\n",
      report.outside);
  text += fmt::format("{:>16} in all ({:.1f} MiB)\n", report.total(), mebibytes(report.total()));
  return text;
}

std::string summary(const MemoryReport& report, const Device& device, double matmul_roof) {
  return fmt::format(
      "{} parameters on {}; memory {:.1f} MiB planned, {:.1f} MiB outside; large products {:.1f} GFLOP/s",
      report.parameters, device.description(), mebibytes(report.device.bytes() + report.host_batches),
      mebibytes(report.outside), matmul_roof / 1e9);
}

}  // namespace penstock
