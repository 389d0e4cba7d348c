#include "model/unit_norm.h"

namespace penstock::model {

using Id = SlotTensorId;

UnitNorm::UnitNorm(const UnitContext& context, int unit, const std::string& prefix)
    : norm_(*context.math.norm), epsilon_(static_cast<float>(context.config.model.norm_epsilon)) {
  const Parameter& weight = context.parameters.find(unit, prefix + ".weight");
  weight_ = context.parameters.weights(weight);
  d_weight_ = context.parameters.accumulator(weight);
  if (context.config.model.family == Family::gpt2) {
    const Parameter& bias = context.parameters.find(unit, prefix + ".bias");
    bias_ = context.parameters.weights(bias);
    d_bias_ = context.parameters.accumulator(bias);
  }
}

void UnitNorm::forward(Stream& stream, const SlotView& slot) const {
  if (bias_) {
    norm_.layer_norm_forward(stream, slot[Id::input], weight_, bias_, epsilon_, slot[Id::norm_output],
                             slot[Id::mean], slot[Id::rstd]);
  } else {
    norm_.rms_norm_forward(stream, slot[Id::input], weight_, epsilon_, slot[Id::norm_output], slot[Id::rstd]);
  }
}

void UnitNorm::backward(Stream& stream, const SlotView& slot, Tensor d_residual, Tensor d_input) const {
  if (bias_) {
    norm_.layer_norm_backward(stream, slot[Id::d_norm_output], slot[Id::input], weight_, slot[Id::mean],
                              slot[Id::rstd], d_residual, d_input, d_weight_, d_bias_);
  } else {
    norm_.rms_norm_backward(stream, slot[Id::d_norm_output], slot[Id::input], weight_, slot[Id::rstd],
                            d_residual, d_input, d_weight_);
  }
}

}  // namespace penstock::model
