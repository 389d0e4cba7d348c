#include "kernels/reference/optimizer.h"

#include <cmath>

#include "kernels/cpu/stream.h"
#include "kernels/math/check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

class ReferenceOptimizer final : public math::Optimizer {
 public:
  void adamw(Stream& stream, Tensor parameter, Tensor gradient, Tensor moment1, Tensor moment2, Tensor copy,
             math::AdamWConstants constants, const math::StepScalars* scalars) override {
    const Shape shape = parameter.shape;
    math::ArgumentCheck("adamw")
        .tensor("parameter", parameter, shape, {DType::fp32, DType::fp64})
        .tensor("gradient", gradient, shape, {parameter.dtype})
        .tensor("moment1", moment1, shape, {parameter.dtype})
        .tensor("moment2", moment2, shape, {parameter.dtype})
        .optional("copy", copy, shape, {DType::bf16, DType::fp16})
        .that(scalars != nullptr, "scalars are absent");
    cpu::CpuStream::of(stream).enqueue("reference adamw", [=] {
      if (scalars->apply == 0) return;
      const double beta1 = constants.beta1;
      const double beta2 = constants.beta2;
      for (int64_t i = 0; i < parameter.elements(); ++i) {
        const double g = load(gradient, i) * scalars->clip_factor;
        const double m = beta1 * load(moment1, i) + (1 - beta1) * g;
        const double v = beta2 * load(moment2, i) + (1 - beta2) * g * g;
        const double p = load(parameter, i);
        const double direction =
            m / scalars->bias_correction1 / (std::sqrt(v / scalars->bias_correction2) + constants.epsilon);
        store(moment1, i, m);
        store(moment2, i, v);
        store(parameter, i, p - scalars->learning_rate * (direction + constants.weight_decay * p));
        if (copy) store(copy, i, load(parameter, i));
      }
    });
  }
};

}  // namespace

std::unique_ptr<math::Optimizer> make_optimizer(Device& /*device*/) {
  return std::make_unique<ReferenceOptimizer>();
}

}  // namespace penstock::reference
