#include "kernels/cuda/gemm.h"

#include <utility>

#include "kernels/cuda/linear_products.h"
#include "kernels/cuda/pointwise_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/device/error.h"
#include "kernels/math/gemm_check.h"

namespace penstock::cuda {
namespace {

using math::LinearShape;

class CudaLinear final : public math::Linear {
 public:
  CudaLinear(const LinearShape& shape, std::shared_ptr<GemmLibrary> library)
      : shape_(shape), products_(std::move(library), shape, shape.dtype, true) {}

  const LinearShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return products_.workspace_bytes(); }

  void forward(Stream& stream, Tensor x, Tensor w, Tensor bias, Tensor y, Tensor workspace) override {
    math::check_linear_forward(shape_, x, w, bias, y, workspace, products_.forward().workspace_bytes());
    products_.forward().run(stream, x.data, w.data, bias.as<const float>(), y.data, workspace.data);
  }

  void backward_input(Stream& stream, Tensor dy, Tensor w, Tensor dx, Tensor workspace) override {
    math::check_linear_backward_input(shape_, dy, w, dx, workspace,
                                      products_.backward_input().workspace_bytes());
    products_.backward_input().run(stream, dy.data, w.data, nullptr, dx.data, workspace.data);
  }

  void backward_weight(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor workspace) override {
    math::check_linear_backward_weight(shape_, dy, x, dw, workspace,
                                       products_.backward_weight().workspace_bytes());
    products_.backward_weight().run(stream, dy.data, x.data, nullptr, dw.data, workspace.data);
  }

  void backward_bias(Stream& stream, Tensor dy, Tensor dbias) override {
    math::check_linear_backward_bias(shape_, dy, dbias);
    with_element(shape_.dtype, [&]<class Element>(Element) {
      cuda::backward_bias(handle_of(stream), dy.as<const Element>(), dbias.as<float>(), dy.shape[0],
                          dy.shape[1]);
    });
  }

 private:
  LinearShape shape_;
  LinearProducts products_;
};

class CudaGemm final : public math::Gemm {
 public:
  explicit CudaGemm(std::shared_ptr<GemmLibrary> library) : library_(std::move(library)) {}

  math::Support supports(const LinearShape& shape) const override {
    if (math::Support sizes = math::supports_linear_sizes(shape); !sizes) return sizes;
    return supports_element(shape.dtype);
  }

  std::unique_ptr<math::Linear> plan_linear(const LinearShape& shape) override {
    if (const math::Support support = supports(shape); !support) {
      throw DeviceError("linear: " + support.reason);
    }
    return std::make_unique<CudaLinear>(shape, library_);
  }

 private:
  std::shared_ptr<GemmLibrary> library_;
};

}  // namespace

std::unique_ptr<math::Gemm> make_gemm(std::shared_ptr<GemmLibrary> library) {
  return std::make_unique<CudaGemm>(std::move(library));
}

}  // namespace penstock::cuda
