#include "trainer/recompute_check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/content_hash.h"

namespace penstock {
namespace {

bool same_bits(std::span<const double> a, std::span<const double> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

bool StepFingerprint::operator==(const StepFingerprint& other) const {
  return same_bits(losses, other.losses) && same_bits({&gradient_norm, 1}, {&other.gradient_norm, 1}) &&
         gradients == other.gradients;
}

RecomputeCheck::RecomputeCheck(const RankContext& context, StepBatches& batches, StepHook hook)
    : context_(context), batches_(batches), hook_(std::move(hook)) {}

bool RecomputeCheck::due(int64_t step) const {
  const int64_t every = context_.job.numerics.recompute_check_every_steps;
  return every > 0 && (step + 1) % every == 0;
}

StepFingerprint RecomputeCheck::fingerprint(const model::StepResult& result) {
  runtime::PipelineEngine& engine = *context_.engine;
  StepFingerprint made;
  made.losses.assign(engine.losses().begin(), engine.losses().end());
  made.gradient_norm = result.gradient_norm;
  std::vector<std::byte> host;
  for (const auto& unit : engine.rank().parameters().unit_gradients()) {
    const void* values = unit.values.data;
    if (engine.rank().memory().device().kind() != DeviceKind::cpu) {
      host.resize(unit.values.bytes());
      engine.stream().copy(host.data(), unit.values.data, unit.values.bytes());
      engine.stream().synchronize();
      values = host.data();
    }
    made.gradients.push_back(data::hash_bytes(values, unit.values.bytes()));
  }
  return made;
}

StepFingerprint RecomputeCheck::compute(const model::StepInputs& inputs, int computation) {
  const watchdog::Progress::Doing at(context_.progress, watchdog::Phase::check);
  const accounting::HostTimes::Doing doing(context_.host, accounting::Part::evaluation);
  runtime::PipelineEngine& engine = *context_.engine;
  BatchSet& batches = batches_.of(static_cast<int64_t>(inputs.step));
  StepMoment moment{
      context_.world.rank(), static_cast<int64_t>(inputs.step), computation, false, engine, batches};
  if (hook_) hook_(moment);
  runtime::PipelineEngine::UpdateRule rule;
  rule.held = true;
  engine.start_step(inputs, batches.bands(), rule);
  const model::StepResult result = engine.finish_step();
  moment.computed = true;
  if (hook_) hook_(moment);
  return fingerprint(result);
}

void RecomputeCheck::compute_first(const model::StepInputs& inputs) {
  first_ = compute(inputs, 0);
}

bool RecomputeCheck::equal_everywhere(const StepFingerprint& a, const StepFingerprint& b) {
  std::array<uint64_t, 1> different{a == b ? uint64_t{0} : uint64_t{1}};
  context_.world.all_or(different);
  return different[0] == 0;
}

bool RecomputeCheck::conclude(const model::StepInputs& inputs, const model::StepResult& result) {
  const StepFingerprint second = fingerprint(result);
  if (equal_everywhere(first_, second)) {
    context_.engine->update_held();
    return true;
  }
  const StepFingerprint third = compute(inputs, 2);
  const auto step = static_cast<int64_t>(inputs.step);
  int wrong = 0;
  if (equal_everywhere(second, third)) wrong = 1;
  if (equal_everywhere(first_, third)) wrong = 2;
  fault_ = wrong == 1 ? place_of(first_, third, step) : place_of(second, wrong == 2 ? third : first_, step);
  fault_.text = fmt::format(
      "step {}: computed again, it did not come out the same: {}; {}; no weight was changed. Memory, a "
      "device "
      "or a link is at fault: go on from the last checkpoint without that machine",
      step + 1, fault_.text,
      wrong == 0
          ? "a third computation agrees with neither"
          : fmt::format("a third computation says that the {} was wrong", wrong == 1 ? "first" : "second"));
  fault_.details["wrong_computation"] = wrong;
  return false;
}

// A wrong forward shows in the losses, and then everywhere: the micro-batch is known, and its replica.
RecomputeCheck::Fault RecomputeCheck::place_of(const StepFingerprint& wrong, const StepFingerprint& right,
                                               int64_t step) {
  const auto replicas = static_cast<size_t>(context_.engine->plan().topology.replicas());
  const size_t of_replica = right.losses.size() / replicas;
  for (size_t i = 0; i < right.losses.size(); ++i) {
    if (same_bits({&wrong.losses[i], 1}, {&right.losses[i], 1})) continue;
    const auto replica = static_cast<int64_t>(i / of_replica);
    const auto micro_batch = static_cast<int64_t>(i % of_replica) / model::loss_terms;
    const auto samples = batches_.samples(step, static_cast<int>(replica), micro_batch);
    const std::vector<int> ranks = context_.engine->plan().topology.pipeline_of(static_cast<int>(replica));
    return {fmt::format("in a forward: the loss of micro-batch {} of replica {} (ranks {}; samples {} to {}) "
                        "was {:.17g} and {:.17g}",
                        micro_batch, replica, fmt::join(ranks, ", "), samples[0], samples[1], wrong.losses[i],
                        right.losses[i]),
            {{"direction", "forward"},
             {"micro_batch", micro_batch},
             {"replica", replica},
             {"ranks", ranks},
             {"samples", samples}}};
  }
  return place_in_backward(wrong, right);
}

// Gradients go down the model: what went wrong shows in the unit where it did, and in those before it.
RecomputeCheck::Fault RecomputeCheck::place_in_backward(const StepFingerprint& wrong,
                                                        const StepFingerprint& right) {
  runtime::PipelineEngine& engine = *context_.engine;
  const auto& units = engine.rank().parameters().unit_gradients();
  std::string mine;
  for (size_t i = 0; i < units.size(); ++i) {
    if (wrong.gradients[i] != right.gradients[i]) mine += fmt::format("{} ", units[i].unit);
  }
  const std::vector<std::string> all = context_.world.all_gather(mine);
  int last = -1;
  std::vector<int> ranks;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream list(all[rank]);
    for (int unit = 0; list >> unit;) {
      if (unit > last) ranks.clear();
      last = std::max(last, unit);
      if (unit == last) ranks.push_back(static_cast<int>(rank));
    }
  }
  if (last < 0) {
    return {fmt::format("the gradient norm was {:.17g} and {:.17g}, of the same gradients",
                        wrong.gradient_norm, right.gradient_norm),
            {{"direction", "norm"}}};
  }
  int stage = engine.plan().last_stage();
  while (engine.plan().first_unit(stage) > last) --stage;
  const std::string unit = name_of(model::unit_at(engine.rank().config().model, last));
  return {
      fmt::format("in a backward, the losses being the same: the gradient of unit {} differs, of stage {} "
                  "({} {}){}",
                  unit, stage, ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "),
                  ranks.size() == 1 ? "" : ", which hold the sum over the replicas"),
      {{"direction", "backward"}, {"unit", unit}, {"stage", stage}, {"ranks", ranks}}};
}

void RecomputeCheck::wish(const StepSummary& result, Decision& wishes) {
  if (fault_.text.empty()) return;
  context_.reports.warning(fault_.text);
  fault_.details["reason"] = fault_.text;
  context_.reports.event("recomputation_differs", result.step, fault_.details);
  wishes.stop = true;
  wishes.unfit = true;
  wishes.code = ExitCode::numerics;
  wishes.reason = fault_.text;
}

}  // namespace penstock
