#include "model/stage.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::model {

using Id = SlotTensorId;

Stage::Stage(const UnitContext& context, PlannedMemory& memory, size_t index, Tensor losses,
             const Boundaries& boundaries)
    : rank_(context.config),
      math_(context.math),
      config_(context.config.stages[index]),
      side_band_(side_band(rank_, config_)),
      side_band_slot_(side_band_bytes(rank_, config_)),
      losses_(losses) {
  const ModelSection& model = rank_.model;
  for (int unit = config_.begin; unit < config_.end; ++unit) {
    const RecomputeMode mode = config_.recompute.empty()
                                   ? RecomputeMode::none
                                   : config_.recompute[static_cast<size_t>(unit - config_.begin)];
    Member member{make_unit(context, unit, mode),
                  slot_layout(rank_, unit, mode),
                  {},
                  {config_.forward_slots, config_.kept_slots, config_.weight_slots, 1}};
    for (const Pool pool : {Pool::forward, Pool::kept, Pool::weight}) {
      const auto place = static_cast<size_t>(pool);
      const size_t bytes = member.layout.bytes(pool) * static_cast<size_t>(member.slots[place]);
      member.memory[place] = static_cast<char*>(
          memory.claim(ArenaTag::activations, unit_piece(model, unit, name_of(pool)), bytes));
    }
    member.memory[static_cast<size_t>(Pool::transient)] = context.transients;
    members_.push_back(std::move(member));
  }
  side_band_memory_ =
      static_cast<char*>(memory.claim(ArenaTag::activations, stage_piece(index, "side_band"),
                                      side_band_slot_ * static_cast<size_t>(config_.forward_slots)));
  hidden_ = boundary(rank_).front();
  boundary_bytes_ = boundary_bytes(rank_);
  if (config_.end < unit_count(model)) {
    output_ = boundaries.outputs;
  } else {
    head_ = static_cast<HeadUnit*>(members_.back().unit.get());
  }
  if (config_.begin > 0) d_input_ = boundaries.d_inputs;
  if (boundaries.staging != nullptr) staging_ = Tensor(boundaries.staging, rank_.compute, hidden_.shape);
}

SlotView Stage::view(int member, Phase phase, const SlotIds& slots) const {
  const Member& at = members_[static_cast<size_t>(member)];
  const std::array<int, pool_count> ids{slots.forward, slots.kept, slots.weight, 0};
  std::array<void*, pool_count> begins{};
  for (size_t pool = 0; pool < begins.size(); ++pool) {
    if (ids[pool] < 0 || ids[pool] >= at.slots[pool]) {
      throw UsageError(fmt::format("{} slot {} of a stage that has {}", name_of(static_cast<Pool>(pool)),
                                   ids[pool], at.slots[pool]));
    }
    if (at.memory[pool] != nullptr) {
      begins[pool] =
          at.memory[pool] + static_cast<size_t>(ids[pool]) * at.layout.bytes(static_cast<Pool>(pool));
    }
  }
  return at.layout.view(phase, begins);
}

SideBand Stage::side_band_of(const SlotIds& slots) const {
  SideBand band;
  if (slots.forward < 0 || slots.forward >= config_.forward_slots) {
    throw UsageError(
        fmt::format("forward slot {} of a stage that has {}", slots.forward, config_.forward_slots));
  }
  char* at = side_band_memory_ + static_cast<size_t>(slots.forward) * side_band_slot_;
  for (const SideBandTensor& entry : side_band_) {
    Tensor& tensor = band.*entry.member;
    tensor = Tensor(at, entry.dtype, entry.shape);
    at += aligned(tensor.bytes());
  }
  return band;
}

MicroBatch Stage::micro_batch_of(const SlotIds& slots, int64_t micro_batch, Pass pass) const {
  const Tensor losses = redirected_losses_ ? redirected_losses_ : losses_.rows(micro_batch, 1);
  return {.band = side_band_of(slots), .losses = losses.as<double>(), .pass = pass};
}

void Stage::tell(int member, Phase phase, Tensor handed) const {
  if (observer_) observer_(config_.begin + member, phase, handed);
}

void Stage::forward(Stream& stream, const SlotIds& slots, int64_t micro_batch, const SideBand& inputs,
                    Pass pass, int output_buffer) {
  take_side_band(stream, slots, inputs);
  forward_units(stream, slots, micro_batch, pass, output_buffer);
}

void Stage::take_side_band(Stream& stream, const SlotIds& slots, const SideBand& inputs) {
  const SideBand band = side_band_of(slots);
  for (const SideBandTensor& entry : side_band_) {
    const Tensor& from = inputs.*entry.member;
    const Tensor& to = band.*entry.member;
    if (!from || from.dtype != to.dtype || from.elements() != to.elements()) {
      throw UsageError(
          fmt::format("a micro-batch needs {} as {} {}, found {}", entry.name, name_of(entry.dtype),
                      to_string(entry.shape),
                      from ? fmt::format("{} {}", name_of(from.dtype), to_string(from.shape)) : "nothing"));
    }
    stream.copy(to.data, from.data, to.bytes());
  }
}

void Stage::forward_units(Stream& stream, const SlotIds& slots, int64_t micro_batch, Pass pass,
                          int output_buffer) {
  const MicroBatch batch = micro_batch_of(slots, micro_batch, pass);
  for (int member = 0; member < units(); ++member) {
    const bool leaves = member + 1 == units() && !head_;
    Tensor handed;
    if (member + 1 < units()) handed = view(member + 1, Phase::forward, slots)[Id::input];
    if (leaves) handed = output(output_buffer);
    if (ahead_of_forward_) ahead_of_forward_(config_.begin + member);
    members_[static_cast<size_t>(member)].unit->forward(stream, view(member, Phase::forward, slots), batch,
                                                        leaves ? leaving(handed) : handed);
    if (leaves) leave(stream, handed);
    tell(member, Phase::forward, handed);
  }
}

void Stage::backward_input(Stream& stream, const SlotIds& slots, int64_t micro_batch, int d_input_buffer) {
  const MicroBatch batch = micro_batch_of(slots, micro_batch, Pass::training);
  auto stamp = recompute_stamps_.begin();
  for (int member = units() - 1; member >= 0; --member) {
    const bool leaves = member == 0 && config_.begin > 0;
    Tensor handed;
    if (member > 0) handed = view(member - 1, Phase::backward_input, slots)[Id::d_output];
    if (leaves) handed = d_input(d_input_buffer);
    const SlotView slot = view(member, Phase::backward_input, slots);
    Unit& unit = *members_[static_cast<size_t>(member)].unit;
    const bool timed = stamp != recompute_stamps_.end() && recomputes(member);
    if (timed) stream.stamp(&*stamp++);
    unit.recompute(stream, slot, batch);
    if (timed) stream.stamp(&*stamp++);
    tell(member, Phase::recompute, Tensor());
    unit.backward_input(stream, slot, batch, leaves ? leaving(handed) : handed);
    if (leaves) leave(stream, handed);
    tell(member, Phase::backward_input, handed);
  }
  recompute_stamps_ = {};
}

int Stage::recomputing_units() const {
  int count = 0;
  for (int member = 0; member < units(); ++member) count += recomputes(member) ? 1 : 0;
  return count;
}

void Stage::backward_weight(Stream& stream, const SlotIds& slots) {
  for (int member = units() - 1; member >= 0; --member) {
    members_[static_cast<size_t>(member)].unit->backward_weight(stream,
                                                                view(member, Phase::backward_weight, slots));
    tell(member, Phase::backward_weight, Tensor());
  }
}

Tensor Stage::input(const SlotIds& slots) const {
  if (has_embedding()) throw UsageError("the first stage receives no activations");
  return view(0, Phase::forward, slots)[Id::input];
}

Tensor Stage::d_output(const SlotIds& slots) const {
  if (head_) throw UsageError("the last stage receives no gradient");
  return view(units() - 1, Phase::backward_input, slots)[Id::d_output];
}

Tensor Stage::boundary_buffer(const char* what, char* buffers, int count, int buffer) const {
  if (buffers == nullptr || buffer < 0 || buffer >= count) {
    throw UsageError(fmt::format("{} buffer {} of the stage of units [{}, {}), which has {}", what, buffer,
                                 config_.begin, config_.end, buffers == nullptr ? 0 : count));
  }
  return {buffers + static_cast<size_t>(buffer) * boundary_bytes_, hidden_.dtype, hidden_.shape};
}

void Stage::leave(Stream& stream, const Tensor& buffer) const {
  if (staging_) math_.pointwise->convert(stream, staging_, buffer);
}

Tensor Stage::output(int buffer) const {
  return boundary_buffer("output", output_, rank_.output_buffers, buffer);
}

Tensor Stage::d_input(int buffer) const {
  return boundary_buffer("input gradient", d_input_, rank_.d_input_buffers, buffer);
}

void Stage::logits(Stream& stream, const SlotIds& slots, int64_t first, int64_t count, Tensor logits) {
  if (!head_) throw UsageError("logits of a stage without a head");
  head_->logits(stream, view(units() - 1, Phase::forward, slots), first, count, logits);
}

}  // namespace penstock::model
