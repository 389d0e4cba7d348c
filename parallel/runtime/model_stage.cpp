#include "parallel/runtime/model_stage.h"

#include <fmt/format.h>

namespace penstock::runtime {

ModelStage::ModelStage(model::RankModel& rank, size_t index, const GradientWindows& windows, bool marks_units,
                       bool gathers)
    : rank_(rank),
      parameters_(rank.parameters()),
      stage_(rank.stage(index)),
      windows_(windows),
      begin_(stage_.config().begin) {
  Device& device = rank.memory().device();
  for (std::vector<double>& stamps : recompute_stamps_)
    stamps.resize(2 * static_cast<size_t>(stage_.recomputing_units()));
  for (int unit = begin_; marks_units && unit < stage_.config().end; ++unit) {
    unit_done_.push_back(device.create_event(fmt::format("gradients of unit {}", unit)));
    if (windows_.count() > 1)
      input_done_.push_back(device.create_event(fmt::format("I gradients of unit {}", unit)));
  }
  for (int unit = begin_; gathers && unit < stage_.config().end; ++unit)
    unit_gathered_.push_back(device.create_event(fmt::format("parameters of unit {}", unit)));
}

void ModelStage::use_graphs(WorkGraphs& device, int stage, Tensor losses) {
  graphs_ = std::make_unique<ActionGraphs>(device, stage);
  losses_ = losses;
}

template <class Work>
void ModelStage::as_graph(Stream& stream, schedule::Op op, const StageCall& call, bool losses,
                          const Work& work) {
  const GraphKey key{op,
                     call.slots,
                     call.output,
                     static_cast<int>(set_of(call.micro_batch)),
                     static_cast<int>(parameters_.selected_version()),
                     pass_};
  if (losses) stage_.redirect_losses(losses_);
  graphs_->run(stream, key, work);
  if (!losses) return;
  stage_.redirect_losses({});
  const Tensor place = rank_.losses().rows(call.micro_batch % rank_.config().micro_batches, 1);
  stream.copy(place.data, losses_.data, losses_.bytes());
}

void ModelStage::serve(std::span<const model::SideBand> micro_batches, model::Pass pass, size_t step) {
  micro_batches_[step] = micro_batches;
  timed_[step] = false;
  pass_ = pass;
}

size_t ModelStage::step_of(int micro_batch) const {
  return static_cast<size_t>(micro_batch / rank_.config().micro_batches);
}

size_t ModelStage::set_of(int micro_batch) const {
  return rank_.config().weight_versions > 1 ? step_of(micro_batch) : windows_.set(micro_batch);
}

void ModelStage::gathered(Stream& stream, int unit) {
  stream.record(*unit_gathered_[static_cast<size_t>(unit - begin_)]);
  awaits_ = true;
}

// A graph waits for nothing inside: all units' parameters come first.
void ModelStage::await_parameters(Stream& stream) {
  if (awaits_) stream.wait(graphs_ ? *unit_gathered_.back() : *unit_gathered_.front());
}

void ModelStage::forward(Stream& stream, const StageCall& call) {
  if (call.input) model::take_from_wire(stream, rank_.math(), call.input, stage_.input(call.slots));
  const auto micro_batch = static_cast<size_t>(call.micro_batch % rank_.config().micro_batches);
  // From memory of the host, which differs from step to step.
  stage_.take_side_band(stream, call.slots, micro_batches_[step_of(call.micro_batch)][micro_batch]);
  const auto work = [&] { stage_.forward_units(stream, call.slots, call.micro_batch, pass_, call.output); };
  const bool waits = awaits_ && !graphs_;
  awaits_ = false;
  if (waits) {
    stage_.ahead_of_forward([this, &stream](int unit) {
      if (unit > begin_) stream.wait(*unit_gathered_[static_cast<size_t>(unit - begin_)]);
    });
    work();
    stage_.ahead_of_forward({});
    return;
  }
  if (!graphs_) return work();
  as_graph(stream, schedule::Op::forward, call, stage_.has_head() && pass_ == model::Pass::evaluation, work);
}

void ModelStage::backward_input(Stream& stream, const StageCall& call) {
  if (call.input) model::take_from_wire(stream, rank_.math(), call.input, stage_.d_output(call.slots));
  // One micro-batch a step tells the share: stamps of all would have to be kept.
  const size_t step = step_of(call.micro_batch);
  const bool timed = !timed_[step] && !recompute_stamps_[step].empty();
  timed_[step] = true;
  if (timed) stage_.time_recompute(recompute_stamps_[step]);
  // The last window is summed when all of it is complete.
  const bool marks = windows_.closes(call.micro_batch) && !input_done_.empty() &&
                     windows_.window(call.micro_batch) + 1 < windows_.count();
  if (marks) {
    stage_.observe([this, &stream](int unit, model::Phase phase, const Tensor& /*handed*/) {
      mark(stream, unit, phase);
    });
  }
  parameters_.select_gradients(set_of(call.micro_batch));
  const auto work = [&] { stage_.backward_input(stream, call.slots, call.micro_batch, call.output); };
  if (graphs_ && !timed && !marks) {  // stamps and events are no part of graphs
    as_graph(stream, schedule::Op::backward_input, call, stage_.has_head(), work);
  } else {
    work();
  }
  parameters_.select_gradients(0);
  if (marks) stage_.observe({});
}

void ModelStage::mark(Stream& stream, int unit, model::Phase phase) {
  if (phase == model::Phase::recompute) return;
  const auto& events = phase == model::Phase::backward_input ? input_done_ : unit_done_;
  stream.record(*events[static_cast<size_t>(unit - begin_)]);
}

double ModelStage::recompute_seconds(size_t step) const {
  const std::vector<double>& stamps = recompute_stamps_[step];
  double seconds = 0;
  for (size_t at = 0; at < stamps.size(); at += 2) seconds += stamps[at + 1] - stamps[at];
  return seconds;
}

void ModelStage::backward_weight(Stream& stream, const StageCall& call) {
  const bool marks = (call.last || windows_.closes(call.micro_batch)) && !unit_done_.empty();
  if (marks) {
    stage_.observe([this, &stream](int unit, model::Phase phase, const Tensor& /*handed*/) {
      mark(stream, unit, phase);
    });
  }
  parameters_.select_gradients(set_of(call.micro_batch));
  const auto work = [&] { stage_.backward_weight(stream, call.slots); };
  if (graphs_ && !marks) {
    as_graph(stream, schedule::Op::backward_weight, call, false, work);
  } else {
    work();
  }
  parameters_.select_gradients(0);
  if (marks) stage_.observe({});
}

}  // namespace penstock::runtime
