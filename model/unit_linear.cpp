#include "model/unit_linear.h"

namespace penstock::model {

UnitLinear::UnitLinear(const UnitContext& context, math::Linear& plan, int unit, const std::string& prefix)
    : plan_(plan), workspace_(context.plan_workspace) {
  const Parameter& weight = context.parameters.find(unit, prefix + ".weight");
  weight_ = context.parameters.weights(weight);
  d_weight_ = context.parameters.accumulator(weight);
  first_sum_ = context.parameters.first_sum(weight);
  if (plan.shape().bias) {
    const Parameter& bias = context.parameters.find(unit, prefix + ".bias");
    bias_ = context.parameters.weights(bias);
    d_bias_ = context.parameters.accumulator(bias);
  }
}

}  // namespace penstock::model
