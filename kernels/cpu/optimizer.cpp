#include "kernels/cpu/optimizer.h"

#include <cmath>

#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"
#include "kernels/math/optimizer_check.h"
#include "kernels/math/with_element.h"

namespace penstock::cpu {
namespace {

constexpr int64_t grain = 16384;

template <class Copy>
struct AdamWState {
  float* __restrict parameter;
  const float* __restrict gradient;
  float* __restrict moment1;
  float* __restrict moment2;
  Copy* __restrict copy;  ///< null where there is none
};

template <bool with_copy, class Copy>
void update(const AdamWState<Copy>& state, const math::AdamWConstants& constants,
            const math::StepScalars& scalars, int64_t begin, int64_t end) {
  const auto [parameter, gradient, moment1, moment2, copy] = state;
  const float beta1 = constants.beta1;
  const float beta2 = constants.beta2;
  const float rest1 = 1.0F - beta1;
  const float rest2 = 1.0F - beta2;
  const float clip = scalars.clip_factor;
  const float correction1 = scalars.bias_correction1;
  const float correction2 = scalars.bias_correction2;
  const float rate = scalars.learning_rate;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const float g = gradient[i] * clip;
    const float m = beta1 * moment1[i] + rest1 * g;
    const float v = beta2 * moment2[i] + rest2 * (g * g);
    const float direction = (m / correction1) / (std::sqrt(v / correction2) + constants.epsilon);
    const float p = parameter[i] - rate * (direction + constants.weight_decay * parameter[i]);
    moment1[i] = m;
    moment2[i] = v;
    parameter[i] = p;
    if constexpr (with_copy) store(copy[i], p);
  }
}

class CpuOptimizer final : public math::Optimizer {
 public:
  void adamw(Stream& stream, Tensor parameter, Tensor gradient, Tensor moment1, Tensor moment2, Tensor copy,
             math::AdamWConstants constants, const math::StepScalars* scalars) override {
    math::check_adamw(parameter, gradient, moment1, moment2, copy, scalars);
    const int64_t count = parameter.elements();
    math::with_element(copy ? copy.dtype : DType::bf16, [&]<class Copy>(Copy) {
      const AdamWState<Copy> state{parameter.as<float>(), gradient.as<const float>(), moment1.as<float>(),
                                   moment2.as<float>(), copy.as<Copy>()};
      CpuStream::of(stream).enqueue("adamw", [=] {
        if (scalars->apply == 0) return;
        parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
          if (state.copy != nullptr) {
            update<true>(state, constants, *scalars, begin, end);
          } else {
            update<false>(state, constants, *scalars, begin, end);
          }
        });
      });
    });
  }
};

}  // namespace

std::unique_ptr<math::Optimizer> make_optimizer(Device& /*device*/) {
  return std::make_unique<CpuOptimizer>();
}

}  // namespace penstock::cpu
