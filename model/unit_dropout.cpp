#include "model/unit_dropout.h"

namespace penstock::model {

using Id = SlotTensorId;

UnitDropout::UnitDropout(const UnitContext& context, int unit)
    : pointwise_(*context.math.pointwise),
      context_(context),
      site_{context.config.seed, static_cast<uint32_t>(unit),
            static_cast<float>(context.config.model.dropout)} {}

void UnitDropout::apply(Stream& stream, Tensor x, const MicroBatch& batch, Tensor y) const {
  pointwise_.dropout(stream, x, batch.band.samples, context_.scalars, site_, y);
}

ResidualJoin::ResidualJoin(const UnitContext& context, int unit)
    : pointwise_(*context.math.pointwise), dropout_(context, unit) {}

void ResidualJoin::forward(Stream& stream, const SlotView& slot, const MicroBatch& batch,
                           Tensor output) const {
  if (dropout_.acts(batch)) dropout_.apply(stream, output, batch, output);
  pointwise_.add(stream, slot[Id::input], output, output);
}

Tensor ResidualJoin::backward(Stream& stream, const SlotView& slot, const MicroBatch& batch) const {
  if (dropout_.acts(batch)) dropout_.apply(stream, slot[Id::d_output], batch, slot[Id::d_branch]);
  return d_branch(slot);
}

Tensor ResidualJoin::d_branch(const SlotView& slot) const {
  return slot[Id::d_branch] ? slot[Id::d_branch] : slot[Id::d_output];
}

}  // namespace penstock::model
