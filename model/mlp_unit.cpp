#include "model/mlp_unit.h"

#include <fmt/format.h>

namespace penstock::model {

using Id = SlotTensorId;

namespace {

std::string prefix(const UnitContext& context, int index) {
  return fmt::format("layers.{}.mlp.", unit_at(context.config.model, index).layer);
}

bool is_gpt2(const UnitContext& context) {
  return context.config.model.family == Family::gpt2;
}

}  // namespace

MlpUnit::MlpUnit(const UnitContext& context, int index, RecomputeMode mode)
    : pointwise_(*context.math.pointwise),
      mode_(mode),
      gelu_(is_gpt2(context)),
      norm_(context, index, prefix(context, index) + "norm"),
      up_(context, *context.sites.up, index, prefix(context, index) + (is_gpt2(context) ? "up" : "gate_up")),
      down_(context, *context.sites.down, index, prefix(context, index) + "down"),
      join_(context, index) {}

void MlpUnit::activate(Stream& stream, const SlotView& slot) const {
  if (gelu_) {
    pointwise_.gelu_forward(stream, slot[Id::projected], slot[Id::activated]);
  } else {
    pointwise_.swiglu_forward(stream, slot[Id::projected], slot[Id::activated]);
  }
}

void MlpUnit::forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor output) {
  norm_.forward(stream, slot);
  up_.forward(stream, slot[Id::norm_output], slot[Id::projected]);
  activate(stream, slot);
  down_.forward(stream, slot[Id::activated], output);
  join_.forward(stream, slot, batch, output);
}

void MlpUnit::recompute(Stream& stream, const SlotView& slot, const MicroBatch& /*batch*/) {
  if (mode_ == RecomputeMode::none) return;
  norm_.forward(stream, slot);
  if (mode_ == RecomputeMode::full) up_.forward(stream, slot[Id::norm_output], slot[Id::projected]);
  activate(stream, slot);
}

void MlpUnit::backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor d_input) {
  const Tensor d_projected = slot[Id::d_projected];
  const Tensor d_activated = gelu_ ? d_projected : slot[Id::d_activated];
  down_.backward_input(stream, join_.backward(stream, slot, batch), d_activated);
  if (gelu_) {
    pointwise_.gelu_backward(stream, d_activated, slot[Id::projected], d_projected);
  } else {
    pointwise_.swiglu_backward(stream, d_activated, slot[Id::projected], d_projected);
  }
  up_.backward_input(stream, d_projected, slot[Id::d_norm_output]);
  norm_.backward(stream, slot, slot[Id::d_output], d_input);
}

void MlpUnit::backward_weight(Stream& stream, const SlotView& slot) {
  down_.backward_weight(stream, join_.d_branch(slot), slot[Id::activated]);
  up_.backward_weight(stream, slot[Id::d_projected], slot[Id::norm_output]);
}

}  // namespace penstock::model
