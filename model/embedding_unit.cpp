#include "model/embedding_unit.h"

namespace penstock::model {

EmbeddingUnit::EmbeddingUnit(const UnitContext& context)
    : embedding_(*context.math.embedding), dropout_(context, 0) {
  const Parameter& token = context.parameters.find(0, "embedding.token.weight");
  token_ = context.parameters.weights(token);
  d_token_ = context.parameters.accumulator(token);
  if (context.config.model.family == Family::gpt2) {
    const Parameter& position = context.parameters.find(0, "embedding.position.weight");
    position_ = context.parameters.weights(position);
    d_position_ = context.parameters.accumulator(position);
  }
}

void EmbeddingUnit::forward(Stream& stream, const SlotView& /*slot*/, const MicroBatch& batch,
                            Tensor output) {
  embedding_.forward(stream, batch.band.tokens, batch.band.positions, token_, position_, output);
  if (dropout_.acts(batch)) dropout_.apply(stream, output, batch, output);
}

void EmbeddingUnit::recompute(Stream& /*stream*/, const SlotView& /*slot*/, const MicroBatch& /*batch*/) {}

void EmbeddingUnit::backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch,
                                   Tensor /*d_input*/) {
  const Tensor d_output = slot[SlotTensorId::d_output];
  if (dropout_.acts(batch)) dropout_.apply(stream, d_output, batch, d_output);
  embedding_.backward(stream, d_output, batch.band.tokens, batch.band.positions, d_token_, d_position_);
}

void EmbeddingUnit::backward_weight(Stream& /*stream*/, const SlotView& /*slot*/) {}

}  // namespace penstock::model
