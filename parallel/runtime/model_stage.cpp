#include "parallel/runtime/model_stage.h"

#include <fmt/format.h>

namespace penstock::runtime {

namespace {

void hand_over(Stream& stream, const Tensor& from, const Tensor& to) {
  stream.copy(to.data, from.data, to.bytes());
}

}  // namespace

ModelStage::ModelStage(model::RankModel& rank, size_t index, const GradientWindows& windows, bool marks_units)
    : parameters_(rank.parameters()),
      stage_(rank.stage(index)),
      windows_(windows),
      begin_(stage_.config().begin) {
  Device& device = rank.memory().device();
  recompute_stamps_.resize(2 * static_cast<size_t>(stage_.recomputing_units()));
  for (int unit = begin_; marks_units && unit < stage_.config().end; ++unit) {
    unit_done_.push_back(device.create_event(fmt::format("gradients of unit {}", unit)));
    if (windows_.count() > 1)
      input_done_.push_back(device.create_event(fmt::format("I gradients of unit {}", unit)));
  }
}

void ModelStage::serve(std::span<const model::SideBand> micro_batches, model::Pass pass) {
  micro_batches_ = micro_batches;
  pass_ = pass;
}

void ModelStage::forward(Stream& stream, const StageCall& call) {
  if (call.input) hand_over(stream, call.input, stage_.input(call.slots));
  stage_.forward(stream, call.slots, call.micro_batch, micro_batches_[static_cast<size_t>(call.micro_batch)],
                 pass_, call.output);
}

void ModelStage::backward_input(Stream& stream, const StageCall& call) {
  if (call.input) hand_over(stream, call.input, stage_.d_output(call.slots));
  // One micro-batch a step tells the share: stamps of all would have to be kept.
  if (call.micro_batch == 0) stage_.time_recompute(recompute_stamps_);
  // The last window is summed when all of it is complete.
  const bool marks = windows_.closes(call.micro_batch) && !input_done_.empty() &&
                     windows_.window(call.micro_batch) + 1 < windows_.count();
  if (marks) {
    stage_.observe([this, &stream](int unit, model::Phase phase, const Tensor& /*handed*/) {
      mark(stream, unit, phase);
    });
  }
  parameters_.select_gradients(windows_.set(call.micro_batch));
  stage_.backward_input(stream, call.slots, call.micro_batch, call.output);
  parameters_.select_gradients(0);
  if (marks) stage_.observe({});
}

void ModelStage::mark(Stream& stream, int unit, model::Phase phase) {
  if (phase == model::Phase::recompute) return;
  const auto& events = phase == model::Phase::backward_input ? input_done_ : unit_done_;
  stream.record(*events[static_cast<size_t>(unit - begin_)]);
}

double ModelStage::recompute_seconds() const {
  double seconds = 0;
  for (size_t at = 0; at < recompute_stamps_.size(); at += 2)
    seconds += recompute_stamps_[at + 1] - recompute_stamps_[at];
  return seconds;
}

void ModelStage::backward_weight(Stream& stream, const StageCall& call) {
  const bool marks = windows_.closes(call.micro_batch) && !unit_done_.empty();
  if (marks) {
    stage_.observe([this, &stream](int unit, model::Phase phase, const Tensor& /*handed*/) {
      mark(stream, unit, phase);
    });
  }
  parameters_.select_gradients(windows_.set(call.micro_batch));
  stage_.backward_weight(stream, call.slots);
  parameters_.select_gradients(0);
  if (marks) stage_.observe({});
}

}  // namespace penstock::runtime
