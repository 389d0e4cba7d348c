#include "trainer/step_accounting.h"

#include <algorithm>
#include <array>

#include "trainer/process_memory.h"

namespace penstock {
namespace {

using accounting::Culprit;
using accounting::Part;
using accounting::RankAccount;
using accounting::StepAccount;
using accounting::StepFigures;

std::vector<std::vector<int>> pipelines_of(const runtime::Topology& topology) {
  std::vector<std::vector<int>> pipelines;
  for (int replica = 0; replica < topology.replicas(); ++replica)
    pipelines.push_back(topology.pipeline_of(replica));
  return pipelines;
}

// Literals, as metrics keep pointers.
constexpr std::array<const char*, accounting::part_count> part_keys{
    "forward_ms",    "backward_input_ms", "backward_weight_ms", "recompute_ms",
    "optimizer_ms",  "fill_ms",           "wait_forward_ms",    "wait_backward_ms",
    "transfer_ms",   "buffer_ms",         "drain_ms",           "reduction_ms",
    "data_ms",       "host_ms",           "launch_ms",          "evaluation_ms",
    "checkpoint_ms", "unexplained_ms"};

report::RankMetrics metrics_of(const StepAccount& step, int rank, int replica) {
  const RankAccount& account = step.ranks[static_cast<size_t>(rank)];
  report::RankMetrics metrics;
  metrics.rank = rank;
  metrics.replica = replica;
  metrics.add("accounted_ms", 1e3 * step.seconds());
  for (size_t part = 0; part < accounting::part_count; ++part)
    metrics.add(part_keys[part], 1e3 * account.parts[static_cast<Part>(part)]);
  if (const Culprit* root = account.root()) {
    metrics.root_rank = root->rank;
    metrics.root_link_to = root->to;
    metrics.add("root_ms", 1e3 * root->seconds);
  }
  return metrics;
}

std::unique_ptr<accounting::Accountant> accountant_of(const runtime::PipelinePlan& plan) {
  if (plan.rolling) return std::make_unique<accounting::Accountant>(plan.training, *plan.rolling);
  return std::make_unique<accounting::Accountant>(plan.training);
}

// Where steps overlap, the optimizer step is still ahead, and so is what is gathered behind it; that of the
// step before has run. All else is behind the agreement that the host has waited for. As in any other step,
// what counts as gathered is what the step's first forward waited for: behind the update of the step before
// the last.
void take_overlapping(const runtime::PipelineEngine& engine, uint64_t step, bool drained, double offset,
                      accounting::RankTimes& own) {
  const auto stamps = engine.stamps(step);
  const auto times_of = [offset](const runtime::Stamp& stamp) -> accounting::InstructionTimes {
    return {stamp.enqueued - offset, stamp.start - offset, 0, stamp.end - offset};
  };
  std::vector<accounting::InstructionTimes>& times = own.instructions;
  const size_t update = engine.update_place();
  accounting::take_stamps(stamps.first(update), offset, times);
  // What is ahead, or long ago, gets a time that makes records no coarser.
  const double first = times.front().enqueued;
  const double last = times.back().end;
  times.push_back(drained ? times_of(stamps[update]) : accounting::InstructionTimes{0, last, 0, last});
  for (size_t at = update + 1; at < stamps.size(); ++at) {
    const double gathered = step > 1 ? times_of(engine.stamps(step - 2)[at]).end : first;
    times.push_back({0, first, 0, std::clamp(gathered, first, last)});
  }
  own.optimizer_before =
      step > 0 ? times_of(engine.stamps(step - 1)[update]) : accounting::InstructionTimes();
}

}  // namespace

StepAccounting::StepAccounting(const RankContext& context, Device& device, transport::ClockAlignment& clocks,
                               StepReport& step_report, RunAccount& run, BudgetSteering& steering)
    : context_(context),
      step_report_(step_report),
      run_(run),
      steering_(steering),
      clock_(*device.options().clock),
      clocks_(clocks),
      standstills_(clock_),
      gathering_(context.world.hosts(), device, pipelines_of(context.engine->plan().topology),
                 context.engine->plan().training) {
  if (gathering_.leads()) accountant_ = accountant_of(context.engine->plan());
}

void StepAccounting::act(const StepSummary& result, const Decision& decision) {
  const bool pauses = decision.pauses();
  take_record(result, pauses);
  gathering_.send();
  travelling_ = true;
  if (!pauses) return;
  clocks_.measure();  // ranks meet anyway
  settle();
}

void StepAccounting::rearranged() {
  const schedule::Program& program = context_.engine->plan().training;
  gathering_.take_program(program);
  if (accountant_) accountant_ = accountant_of(context_.engine->plan());
  // What the change took is part of no step.
  step_end_.reset();
  run_.rearranged(context_.engine->plan(), context_.job);
}

void StepAccounting::rolled_back(int64_t /*step*/) {
  step_end_.reset();  // what it took is part of no step
}

void StepAccounting::take_record(const StepSummary& result, bool pauses) {
  const runtime::PipelineEngine& engine = *context_.engine;
  if (taken_ > 0 && taken_ % clock_steps == 0) clocks_.measure();
  accounting::RankTimes& own = gathering_.own();
  const double now = clock_.now();
  const double offset = clocks_.offset(now);
  own.clock_error = clocks_.error(now);
  const auto step = static_cast<uint64_t>(result.step - 1);
  if (engine.plan().overlaps()) {
    follows_ = !drains_;
    drains_ = engine.started_steps() == 0;
    take_overlapping(engine, step, drains_, offset, own);
  } else {
    accounting::take_stamps(engine.stamps(step), offset, own.instructions);
  }
  own.offered = engine.offered_seconds() - offset;
  own.agreed = engine.agreed_seconds() - offset;
  own.host = context_.host.lately();
  for (accounting::HostInterval& interval : own.host) {
    interval.begin -= offset;
    interval.end -= offset;
  }
  own.standstills = standstills_.lately();
  for (accounting::Interval& interval : own.standstills) {
    interval.begin -= offset;
    interval.end -= offset;
  }
  size_t index = 0;
  for (int stage = 0; stage < engine.plan().stages(); ++stage) {
    if (engine.owns(stage)) own.recompute[index++] = engine.recompute_seconds(stage);
  }
  // Reading it takes as long as some steps of a tiny model.
  if (pauses || taken_ % memory_steps == 0) own.memory_peak = static_cast<double>(process_memory().peak);
  ++taken_;
}

void StepAccounting::settle() {
  if (!travelling_) return;
  travelling_ = false;
  const std::span<const accounting::RankTimes> ranks = gathering_.receive();
  if (accountant_) {
    const StepAccount& account = context_.engine->plan().overlaps()
                                     ? accountant_->account_overlapping(ranks, step_end_, follows_, drains_)
                                     : accountant_->account(ranks, step_end_);
    step_end_ = account.end;
    const std::span<const StepAccount> accounts = gathering_.share(account);
    if (context_.leads()) {
      run_.add(ranks, accounts);
      report(accounts);
    }
  }
  step_report_.publish();
}

void StepAccounting::report(std::span<const StepAccount> accounts) {
  report::StepMetrics* metrics = step_report_.pending();
  if (metrics == nullptr) return;
  const StepFigures figures = figures_of(accounts, accountant_->stages_by_rank());
  metrics->bubble_ratio = figures.bubble_ratio;
  metrics->bubble_ratio_rank_span = figures.bubble_ratio_rank_span;
  metrics->idle_ratio = figures.idle_ratio;
  metrics->stage_imbalance = figures.stage_imbalance;
  metrics->slowest_stage = figures.slowest_stage;
  metrics->fill_ms = 1e3 * figures.fill;
  metrics->drain_ms = 1e3 * figures.drain;
  metrics->micro_batch_latency_ms = 1e3 * figures.micro_batch_latency;
  if (run_.prediction()) metrics->predicted_step_ms = 1e3 * run_.prediction()->account.seconds();
  metrics->ranks.clear();
  for (size_t replica = 0; replica < accounts.size(); ++replica) {
    for (size_t rank = 0; rank < accounts[replica].ranks.size(); ++rank) {
      metrics->ranks.push_back(
          metrics_of(accounts[replica], static_cast<int>(rank), static_cast<int>(replica)));
    }
  }
  run_.add_step(*metrics->step_ms / 1e3, figures);
  run_.announce_costs(metrics->step, context_.reports);
  steering_.observe(metrics->step, accounts, figures);
}

}  // namespace penstock
