#include "kernels/cuda/optimizer.h"

#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/math/optimizer_check.h"

namespace penstock::cuda {
namespace {

class CudaOptimizer final : public math::Optimizer {
 public:
  void adamw(Stream& stream, Tensor parameter, Tensor gradient, Tensor moment1, Tensor moment2, Tensor copy,
             math::AdamWConstants constants, const math::StepScalars* scalars) override {
    math::check_adamw(parameter, gradient, moment1, moment2, copy, scalars);
    const AdamWTensor tensor{.parameter = parameter.as<float>(),
                             .gradient = gradient.as<const float>(),
                             .moment1 = moment1.as<float>(),
                             .moment2 = moment2.as<float>(),
                             .copy = copy.data,
                             .elements = parameter.elements(),
                             .weight_decay = constants.weight_decay};
    cuda::adamw(handle_of(stream), {&tensor, 1},
                {.beta1 = constants.beta1,
                 .beta2 = constants.beta2,
                 .epsilon = constants.epsilon,
                 .scalars = scalars,
                 .copy_type = copy ? copy.dtype : DType::bf16});
  }
};

}  // namespace

std::unique_ptr<math::Optimizer> make_optimizer(Device& /*device*/) {
  return std::make_unique<CudaOptimizer>();
}

}  // namespace penstock::cuda
