#include "trainer/memory_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/call_sites.h"
#include "model/flops.h"
#include "model/parameter.h"
#include "trainer/model_state.h"
#include "trainer/process_memory.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

double mebibytes(size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::string unit_range(const ModelSection& model, int begin, int end) {
  const std::string first = model::name_of(model::unit_at(model, begin));
  return end - begin == 1 ? first : first + " to " + model::name_of(model::unit_at(model, end - 1));
}

size_t largest_planned(const MemoryReport& report) {
  size_t most = 0;
  for (size_t rank = 0; rank < report.ranks.size(); ++rank)
    most = std::max(most, report.ranks[rank].device.bytes() + report.host(rank));
  return most;
}

nlohmann::ordered_json to_json(const MemoryReport& report, const RankMemory& rank) {
  nlohmann::ordered_json arenas;
  for (int index = 0; index < arena_tag_count; ++index) {
    const auto tag = static_cast<ArenaTag>(index);
    nlohmann::ordered_json pieces = nlohmann::ordered_json::object();
    for (const model::PlannedAllocation& piece : rank.device.allocations) {
      if (piece.tag == tag) pieces[piece.name] = piece.bytes;
    }
    arenas[std::string(name_of(tag))] = {{"bytes", rank.device.bytes(tag)}, {"allocations", pieces}};
  }
  return {{"stages", rank.units},
          {"device_bytes", rank.device.bytes()},
          {"host_batches_bytes", report.host_batches},
          {"snapshot_bytes", rank.snapshot},
          {"outside_bytes", outside_reserve},
          {"total_bytes", rank.device.bytes() + report.host_batches + rank.snapshot + outside_reserve},
          {"arenas", arenas}};
}

}  // namespace

size_t host_batch_bytes(const Job& job) {
  const auto micro_batches = static_cast<size_t>(job.micro_batches());
  const auto sequences = static_cast<size_t>(job.batch.micro);
  const auto tokens = sequences * static_cast<size_t>(job.model.sequence_length);
  return static_cast<size_t>(StepBatches::sets(job)) * micro_batches *
         (4 * tokens * sizeof(int32_t) + sequences * sizeof(int64_t));
}

MemoryReport memory_report(const Job& job, Backend& backend, const runtime::PipelinePlan& plan) {
  MemoryReport report;
  for (const model::RankConfig& config : plan.ranks) {
    model::check(config);
    RankMemory rank;
    rank.device = model::plan_memory(config, model::make_call_sites(backend.math, config));
    if (saves_in_background(job)) rank.snapshot = snapshot_bytes(config);
    for (const model::StageConfig& stage : config.stages) {
      rank.units.push_back(unit_range(job.model, stage.begin, stage.end));
    }
    report.ranks.push_back(std::move(rank));
  }
  report.replicas = job.parallel.data;
  report.schedule = job.parallel.schedule;
  report.micro_batches = job.micro_batches();
  report.host_batches = host_batch_bytes(job);
  report.outside = process_memory().resident;
  report.parameters = model::parameter_count(job.model);
  report.flops_per_token = model::training_flops_per_token(job.model);
  report.tokens_per_step = job.batch.global * job.model.sequence_length;
  return report;
}

nlohmann::ordered_json to_json(const MemoryReport& report) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const RankMemory& rank : report.ranks) ranks.push_back(to_json(report, rank));
  return {{"schema", 1},
          {"pipeline", report.ranks.size()},
          {"data", report.replicas},
          {"schedule", report.schedule},
          {"micro_batches", report.micro_batches},
          {"parameters", report.parameters},
          {"flops_per_token", report.flops_per_token},
          {"tokens_per_step", report.tokens_per_step},
          {"ranks", ranks}};
}

std::string table(const MemoryReport& report) {
  std::string text = fmt::format(
      "{} parameters, {} tokens a step, {:.4g} FLOP a token\n{} pipeline ranks, {} replicas, schedule {}, {} "
      "micro-batches\n",
      report.parameters, report.tokens_per_step, report.flops_per_token, report.ranks.size(), report.replicas,
      report.schedule, report.micro_batches);
  for (size_t index = 0; index < report.ranks.size(); ++index) {
    const RankMemory& rank = report.ranks[index];
    text += fmt::format("\nrank {}: {}\n           bytes  what\n{}", index, fmt::join(rank.units, "; "),
                        rank.device.table());
    text += fmt::format("{:>16} host batches\n", report.host_batches);
    if (rank.snapshot > 0)
      text += fmt::format("{:>16} host memory for what is saved, while it is written\n", rank.snapshot);
    text += fmt::format("{:>16} outside the accounts: reserved for program, libraries, mapped files\n",
                        outside_reserve);
    text += fmt::format("{:>16} in all ({:.1f} MiB)\n", report.total(index), mebibytes(report.total(index)));
  }
  return text;
}

std::string summary(const MemoryReport& report, const Device& device, double matmul_roof) {
  const auto ranks = static_cast<int64_t>(report.ranks.size()) * report.replicas;
  return fmt::format(
      "{} parameters on {}{}; memory {:.1f} MiB planned{}, {:.1f} MiB outside; large products {:.1f} GFLOP/s",
      report.parameters,
      ranks == 1 ? std::string()
                 : fmt::format("{} pipeline ranks x {} replicas ({}), each ", report.ranks.size(),
                               report.replicas, report.schedule),
      device.description(), mebibytes(largest_planned(report)), ranks == 1 ? "" : " on the fullest rank",
      mebibytes(report.outside), matmul_roof / 1e9);
}

}  // namespace penstock
