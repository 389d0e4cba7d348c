#include "trainer/rearrangement.h"

#include <array>
#include <chrono>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "trainer/arranged_job.h"
#include "trainer/elapsed.h"
#include "trainer/memory_limit.h"
#include "trainer/rank_context.h"

namespace penstock {

/// What the run is to go on with.
struct Rearrangement::Next {
  Job job;
  runtime::PipelinePlan plan;
  MemoryReport memory;
  std::optional<Corpus> corpus;  ///< where the rank needs tokens that it did not need before
  std::unique_ptr<runtime::PipelineEngine> engine;
};

Rearrangement::Rearrangement(const Parts& parts, std::optional<planner::ModelCosts> costs,
                             std::vector<int64_t> sizes, RearrangementHook hook)
    : parts_(parts), costs_(std::move(costs)), sizes_(std::move(sizes)), hook_(std::move(hook)) {}

template <class Work>
std::string Rearrangement::failure_of(Work&& work) const {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    if (parts_.world.stopped()) throw;
    return error.what();
  }
}

std::string Rearrangement::agreed(const std::string& failure) const {
  std::array<int64_t, 1> first{failure.empty() ? 0 : parts_.world.size() - parts_.world.rank()};
  parts_.world.all_reduce(first, transport::Reduction::maximum);
  if (first[0] == 0) return {};
  const int rank = parts_.world.size() - static_cast<int>(first[0]);
  return fmt::format("rank {}: {}", rank, parts_.world.broadcast(failure, rank));
}

void Rearrangement::announce(std::string_view phase) const {
  if (hook_) hook_(parts_.world.rank(), phase);
}

void Rearrangement::prepare(const budget::Arrangement& arrangement, Next& next) {
  next.job = arranged_job(parts_.job, arrangement);
  next.job.batch.micro = sizes_.at(arrangement.workload);
  runtime::PipelineRequest request = pipeline_request(next.job);
  request.costs = costs_;
  next.plan = runtime::plan_pipeline(request);
  if (next.plan.training.schedule.copies != 1)
    throw UsageError(fmt::format("schedule {} runs two copies of the weights", arrangement.schedule));
  if (next.plan.overlaps())
    throw UsageError(fmt::format("schedule {} is asynchronous", arrangement.schedule));
  next.memory = memory_report(next.job, parts_.backend, next.plan);
  check_room_beside(parts_.memory, next.memory, parts_.asked, *parts_.backend.device,
                    parts_.world.hosts().transport() == "inproc");
  const int pipeline = next.plan.topology.place(parts_.world.rank()).pipeline;
  if (needs_tokens(next.job, next.plan, pipeline) && !parts_.corpus.opened())
    next.corpus.emplace(next.job, parts_.tokenizer, true);
  if (next.corpus) next.corpus->skip(parts_.corpus.skipped());
}

void Rearrangement::build(runtime::Communicators communicators, Next& next) {
  Device& device = *parts_.backend.device;
  device.set_arenas_aside();
  announce("build");
  next.engine = std::make_unique<runtime::PipelineEngine>(device, parts_.backend.math, parts_.world,
                                                          next.plan, std::move(communicators));
}

void Rearrangement::take(Next& next) {
  parts_.engine = std::move(next.engine);
  const bool other_size = next.job.batch.micro != parts_.job.batch.micro;
  parts_.job = std::move(next.job);
  parts_.memory = std::move(next.memory);
  if (next.corpus) parts_.corpus = std::move(*next.corpus);
  if (next.corpus || other_size) parts_.batches.begin_anew(parts_.job, *parts_.backend.device);
}

Rearrangement::Outcome Rearrangement::carry_out(const budget::Arrangement& arrangement) {
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome;
  Next next;
  outcome.refusal = agreed(failure_of([&] { prepare(arrangement, next); }));
  if (!outcome.refusal.empty()) return outcome;
  runtime::Communicators communicators = parts_.engine->communicators_beside(next.plan);
  outcome.refusal = agreed(failure_of([&] { build(std::move(communicators), next); }));
  if (outcome.refusal.empty()) {
    announce("move");
    std::array<int64_t, 1> bytes{next.engine->take_over(*parts_.engine)};
    outcome.refusal = agreed(failure_of([&] { announce("moved"); }));
    parts_.world.all_reduce(bytes, transport::Reduction::sum);
    outcome.moved_bytes = bytes[0];
  }
  if (outcome.refusal.empty()) {
    take(next);
  } else {
    next.engine.reset();
    parts_.backend.device->bring_arenas_back();
  }
  outcome.seconds = seconds_since(start);
  return outcome;
}

std::vector<int64_t> Rearrangement::room() const {
  return room_beside(parts_.memory, parts_.job, *parts_.backend.device);
}

}  // namespace penstock
