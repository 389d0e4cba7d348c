#include "model/head_unit.h"

namespace penstock::model {

using Id = SlotTensorId;

HeadUnit::HeadUnit(const UnitContext& context, int index)
    : head_(*context.sites.head),
      reduce_(*context.math.reduce),
      context_(context),
      workspace_(context.plan_workspace),
      norm_(context, index, "head.norm") {
  const Parameter& weight = context.parameters.find(
      index, context.config.model.tie_embeddings ? "embedding.token.weight" : "head.weight");
  weight_ = context.parameters.weights(weight);
  d_weight_ = context.parameters.accumulator(weight);
}

void HeadUnit::forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor /*output*/) {
  if (batch.pass == Pass::training) return;
  norm_.forward(stream, slot);
  head_.loss(stream, slot[Id::norm_output], weight_, batch.band.targets, slot[Id::losses], workspace_);
  reduce_.sum(stream, slot[Id::losses], batch.losses);
}

void HeadUnit::recompute(Stream& /*stream*/, const SlotView& /*slot*/, const MicroBatch& /*batch*/) {}

void HeadUnit::backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor d_input) {
  norm_.forward(stream, slot);
  head_.loss_and_backward(stream, slot[Id::norm_output], weight_, batch.band.targets, context_.scalars,
                          slot[Id::losses], slot[Id::d_norm_output], d_weight_, workspace_);
  reduce_.sum(stream, slot[Id::losses], batch.losses);
  norm_.backward(stream, slot, Tensor(), d_input);
}

void HeadUnit::backward_weight(Stream& /*stream*/, const SlotView& /*slot*/) {}

void HeadUnit::logits(Stream& stream, const SlotView& slot, int64_t first, int64_t count,
                      Tensor logits) const {
  norm_.forward(stream, slot);
  head_.logits(stream, slot[Id::norm_output].rows(first, count), weight_, logits, workspace_);
}

}  // namespace penstock::model
