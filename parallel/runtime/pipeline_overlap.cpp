// Steps of an asynchronous schedule: two are under way, with two versions of the weights.
//
// Step s reads the weights W(s − 1), that is those behind the update of step s − 2, and makes W(s + 1) of
// W(s): gradients are one update old, whether the pipeline was drained before the step or not. A rank holds
// W(u), behind the u updates that were enqueued, and W(u − 1); its program puts the update of step s right
// before the first forward of step s + 2, so that a step reads W(u) until the update of the step before, and
// W(u − 1) from then on.
//
// A sharded optimizer's owners update W(u); what others own of it is gathered right behind the update, unit
// by unit beside the first forward that reads it. All units have come before the next update copies W(u),
// whole, to where the version before it stood.
//
// Gradients of a step accumulate in a set of their own. So they are still there when all ranks have come to
// the step's end and its norm is known, which is before the update has to be made: the norm that clips is the
// step's own, and a step that is not finite is left out by all ranks, as in any other schedule.
#include <fmt/format.h>

#include "kernels/device/error.h"
#include "parallel/runtime/pipeline_engine.h"

namespace penstock::runtime {

using model::SideBand;

namespace {

size_t parity_of(uint64_t step) {
  return static_cast<size_t>(step % 2);
}

}  // namespace

void PipelineEngine::use_two_versions() {
  rolling_ =
      std::make_unique<RollingLists>(device_, *plan_.rolling, plan_.training, place_.pipeline, stream());
  ends_ = std::make_unique<StepEnds>(device_, stream());
  executor_.synchronize();
}

StepsUnderWay PipelineEngine::steps_under_way() {
  StepsUnderWay steps;
  for (size_t parity = 0; parity < 2; ++parity) {
    const uint64_t step = under_way_.step[parity];
    steps.first_micro_batch[parity] = step * static_cast<uint64_t>(training_.micro_batches());
    steps.stamps[parity] = stamps_[step % kept_steps];
  }
  return steps;
}

void PipelineEngine::select(const schedule::Instruction& instruction) {
  if (!under_way_.open) return;  // an evaluation
  const auto parity = static_cast<size_t>(instruction.step);
  rank_.select_step(parity);
  if (instruction.kind == schedule::InstructionKind::compute)
    rank_.parameters().select_version(under_way_.step[parity] == under_way_.updates ? 1 : 0);
}

void PipelineEngine::start_over(const model::StepInputs& inputs, std::span<const SideBand> micro_batches) {
  const bool follows = under_way_.open;
  if (under_way_.unfinished == 2 || (follows && inputs.step != under_way_.last + 1)) {
    throw UsageError(
        fmt::format("step {} is started with {} step(s) under way, the last of them {}: finish one first, "
                    "and go on with the next",
                    inputs.step, under_way_.unfinished, under_way_.last));
  }
  guarded([&] {
    const size_t parity = parity_of(inputs.step);
    if (!follows) under_way_.updates = inputs.step;
    if (under_way_.unfinished == 0) under_way_.next = inputs.step;
    under_way_.step[parity] = under_way_.last = inputs.step;
    if (!follows) {
      under_way_.step[1 - parity] = inputs.step + 1;  // of which nothing is in the list
      gather_parameters();                            // what was initialised, or loaded
    }
    under_way_.open = true;
    ++under_way_.unfinished;
    for (const auto& stage : stages_) {
      if (stage) stage->serve(micro_batches, model::Pass::training, parity);
    }
    rank_.select_step(parity);
    rank_.optimizer().begin(stream(), inputs);
    const Tensor losses = rank_.losses();
    stream().fill_zero(losses.data, losses.bytes());
    executor_.run(follows ? rolling_->follow(parity) : rolling_->start(parity), steps_under_way(), !follows);
  });
}

model::StepResult PipelineEngine::finish_over() {
  if (under_way_.unfinished == 0) throw UsageError("a step is finished that was not started");
  const size_t parity = parity_of(under_way_.next);
  guarded([&] {
    // The end of a step stands in the next one's list.
    if (under_way_.next == under_way_.last) drain_unguarded();
    ends_->wait(parity);
  });
  finished_ = parity;
  ++under_way_.next;
  --under_way_.unfinished;
  return result_of(parity);
}

void PipelineEngine::drain() {
  guarded([&] { drain_unguarded(); });
}

void PipelineEngine::drain_unguarded() {
  if (!under_way_.open) return;
  executor_.run(rolling_->drain(parity_of(under_way_.last)), steps_under_way(), false);
  executor_.synchronize();
  under_way_.open = false;
  rank_.select_step(0);
  rank_.parameters().select_version(0);
}

}  // namespace penstock::runtime
