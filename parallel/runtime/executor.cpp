#include "parallel/runtime/executor.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::runtime {

using schedule::Instruction;
using schedule::InstructionKind;
using schedule::Op;

namespace {

constexpr std::array<Lane, lane_count> lanes{Lane::compute, Lane::send, Lane::receive, Lane::reduction};

}  // namespace

Executor::Executor(Device& device, ExecutorParts parts)
    : device_(device),
      parts_(std::move(parts)),
      opened_(device.create_event("step opened")),
      flights_(std::make_shared<FlightRecord>(device.kind() == DeviceKind::cpu &&
                                              !device.options().clock->is_virtual())) {
  for (const Lane lane : lanes) {
    const auto place = static_cast<size_t>(lane);
    const StreamUse use = lane == Lane::compute ? StreamUse::compute : StreamUse::transfer;
    streams_[place] = device.create_stream(std::string(name_of(lane)), use);
  }
}

Executor::~Executor() {
  flights_->end();
}

void Executor::run(const StepList& list, std::span<Stamp> stamps) {
  if (stamps.size() != list.steps().size()) {
    throw UsageError(fmt::format("{} stamps for {} instructions", stamps.size(), list.steps().size()));
  }
  run(list, StepsUnderWay{{}, {stamps, {}}}, true);
}

void Executor::run(const StepList& list, const StepsUnderWay& steps, bool opens) {
  if (opens) {
    stream(Lane::compute).record(*opened_);
    for (const Lane lane : lanes) {
      if (lane != Lane::compute) stream(lane).wait(*opened_);
    }
  }
  const size_t count = list.steps().size();
  const size_t ordered = count - list.gathers();
  const Clock& clock = *device_.options().clock;
  if (!clock.is_virtual()) {
    flights_->begin({list.steps(), {steps.stamps[0], steps.stamps[1]}, clock.now(), list.gathers()}, opens);
  }
  const auto stamp_of = [&](const Step& step) -> Stamp& {
    return steps.stamps[static_cast<size_t>(step.instruction.step)][step.stamp];
  };
  const auto take_all = [&](size_t begin, size_t end) {
    for (size_t place = begin; place < end; ++place) {
      const Step& step = list.steps()[place];
      take(step, places_of(step, list.turns(), steps), stamp_of(step));
    }
  };
  take_all(ordered, count);
  take_all(0, ordered);
}

void Executor::take(const Step& step, const Places& places, Stamp& stamp) {
  const InProfilerRange range(step.range);
  const Clock& clock = *device_.options().clock;
  Stream& at = stream(step.lane);
  stamp.instruction = step.named == nullptr ? &step.instruction : step.named;
  stamp.lane = step.lane;
  stamp.enqueued = clock.is_virtual() ? 0 : clock.now();
  for (const Event* event : step.waits) {
    if (event != nullptr) at.wait(*event);
  }
  if (step.instruction.kind == InstructionKind::compute && step.instruction.action.op == Op::forward)
    parts_.stages[static_cast<size_t>(step.instruction.action.stage)]->await_parameters(at);
  if (parts_.before) parts_.before(at, step.instruction);
  at.stamp(&stamp.start);
  enqueue(step, places, at, stamp);
  at.stamp(&stamp.end);
  if (step.done != nullptr) at.record(*step.done);
  if (parts_.after) parts_.after(at, step.instruction);
}

Executor::Places Executor::places_of(const Step& step, const Turns* turns, const StepsUnderWay& steps) {
  const Instruction& at = step.instruction;
  Places places{step.slots, at.input, at.output};
  if (turns == nullptr) return places;
  const uint64_t number = steps.first_micro_batch[static_cast<size_t>(at.step)] +
                          static_cast<uint64_t>(at.action.micro_batch % turns->micro_batches);
  const auto turn = [number](int count) { return static_cast<int>(number % static_cast<uint64_t>(count)); };
  places.slots = {turn(turns->slots.forward), turn(turns->slots.kept), turn(turns->slots.weight)};
  for (schedule::Buffer* buffer : {&places.input, &places.output}) {
    if (!buffer->none()) buffer->index = turn(turns->buffers[static_cast<size_t>(buffer->pool)]);
  }
  return places;
}

void Executor::enqueue(const Step& step, const Places& places, Stream& stream, Stamp& stamp) {
  const Instruction& at = step.instruction;
  switch (at.kind) {
    case InstructionKind::compute:
      compute(step, places, stream, stamp);
      return;
    case InstructionKind::send:
      parts_.pipeline->exchange(stream, {transport::send_to(at.peer, buffer(places.input))});
      return;
    case InstructionKind::receive:
      parts_.pipeline->exchange(stream, {transport::receive_from(at.peer, buffer(places.output))});
      return;
    case InstructionKind::reduce_gradients:
      parts_.operations->reduce_gradients(stream, at.action, at.last);
      return;
    case InstructionKind::sum_tied:
      parts_.operations->sum_tied(stream);
      return;
    case InstructionKind::agree:
      parts_.operations->agree(stream);
      return;
    case InstructionKind::optimizer_step:
      parts_.operations->optimizer_step(stream);
      return;
    case InstructionKind::gather_parameters:
      parts_.operations->gather_parameters(stream, at.action);
      return;
  }
}

void Executor::compute(const Step& step, const Places& places, Stream& stream, Stamp& stamp) {
  const Instruction& at = step.instruction;
  ExecutedStage& stage = *parts_.stages[static_cast<size_t>(at.action.stage)];
  StageCall call;
  call.micro_batch = at.action.micro_batch;
  call.slots = places.slots;
  if (!places.input.none()) call.input = buffer(places.input);
  call.output = places.output.none() ? 0 : places.output.index;
  call.last = at.last;
  if (at.action.op == Op::forward) stage.forward(stream, call);
  if (gives_input_gradient(at.action.op)) stage.backward_input(stream, call);
  if (at.action.op == Op::backward) stream.stamp(&stamp.middle);
  if (gives_weight_gradient(at.action.op)) stage.backward_weight(stream, call);
}

const Tensor& Executor::buffer(const schedule::Buffer& at) const {
  return parts_.buffers[static_cast<size_t>(at.pool)][static_cast<size_t>(at.index)];
}

void Executor::synchronize() {
  std::exception_ptr first;
  for (const Lane lane : lanes) {
    try {
      stream(lane).synchronize();
    } catch (const DeviceError&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  flights_->end();
}

void Executor::run_out() noexcept {
  for (const Lane lane : lanes) {
    try {
      stream(lane).synchronize();
    } catch (const std::exception&) {
      continue;  // the caller's exception is the one that counts
    }
  }
}

}  // namespace penstock::runtime
