#include "kernels/cuda/reduce.h"

#include "kernels/cuda/reduce_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/math/check.h"

namespace penstock::cuda {
namespace {

using math::ArgumentCheck;

class CudaReduce final : public math::Reduce {
 public:
  void squares(Stream& stream, Tensor x, Tensor blocks) override {
    ArgumentCheck("squares")
        .present("x", x, {DType::fp32})
        .tensor("blocks", blocks, {math::norm_blocks(x.elements())}, {DType::fp64});
    cuda::squares(handle_of(stream), x.as<const float>(), blocks.as<double>(), x.elements());
  }

  void sum(Stream& stream, Tensor values, double* out) override {
    ArgumentCheck("sum")
        .present("values", values, {DType::fp32, DType::fp64})
        .that(out != nullptr, "out is absent");
    if (values.dtype == DType::fp64) {
      cuda::sum(handle_of(stream), values.as<const double>(), out, values.elements());
    } else {
      cuda::sum(handle_of(stream), values.as<const float>(), out, values.elements());
    }
  }

  void global_norm(Stream& stream, Tensor sums, float clip_norm, math::StepScalars* scalars) override {
    ArgumentCheck("global_norm")
        .present("sums", sums, {DType::fp64})
        .that(scalars != nullptr, "scalars are absent");
    cuda::global_norm(handle_of(stream), sums.as<const double>(), sums.elements(), clip_norm, scalars);
  }

  void count_nonfinite(Stream& stream, Tensor x, int64_t* out) override {
    ArgumentCheck("count_nonfinite")
        .present("x", x, {DType::fp32, DType::bf16, DType::fp16})
        .that(out != nullptr, "out is absent");
    with_element(x.dtype, [&]<class T>(T) {
      cuda::count_nonfinite(handle_of(stream), x.as<const T>(), out, x.elements());
    });
  }
};

}  // namespace

std::unique_ptr<math::Reduce> make_reduce(Device& /*device*/) {
  return std::make_unique<CudaReduce>();
}

}  // namespace penstock::cuda
