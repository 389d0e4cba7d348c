#include "kernels/reference/gemm.h"

#include <vector>

#include "kernels/cpu/stream.h"
#include "kernels/math/check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

using cpu::CpuStream;
using math::ArgumentCheck;
using math::LinearShape;

class ReferenceLinear final : public math::Linear {
 public:
  explicit ReferenceLinear(const LinearShape& shape) : shape_(shape) {}
  const LinearShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return 0; }

  void forward(Stream& stream, Tensor x, Tensor w, Tensor bias, Tensor y, Tensor /*workspace*/) override {
    const auto [N, C, O, T, has_bias] = shape_;
    const ArgumentCheck check("linear forward");
    check.tensor("x", x, {N, C}, {T}).tensor("w", w, {O, C}, {T}).tensor("y", y, {N, O}, {T});
    check.that(static_cast<bool>(bias) == has_bias, "bias must be given exactly when the plan has one");
    check.optional("bias", bias, {O}, {DType::fp32, DType::fp64});
    CpuStream::of(stream).enqueue("reference linear forward", [=, shape = shape_] {
      const std::vector<double> xs = load_all(x);
      const std::vector<double> ws = load_all(w);
      for (int64_t n = 0; n < shape.tokens; ++n) {
        for (int64_t o = 0; o < shape.out; ++o) {
          double sum = bias ? load(bias, o) : 0.0;
          for (int64_t c = 0; c < shape.in; ++c) sum += xs[n * shape.in + c] * ws[o * shape.in + c];
          store(y, n * shape.out + o, sum);
        }
      }
    });
  }

  void backward_input(Stream& stream, Tensor dy, Tensor w, Tensor dx, Tensor /*workspace*/) override {
    const auto [N, C, O, T, has_bias] = shape_;
    ArgumentCheck("linear backward_input")
        .tensor("dy", dy, {N, O}, {T})
        .tensor("w", w, {O, C}, {T})
        .tensor("dx", dx, {N, C}, {T});
    CpuStream::of(stream).enqueue("reference linear backward_input", [=, shape = shape_] {
      const std::vector<double> dys = load_all(dy);
      const std::vector<double> ws = load_all(w);
      for (int64_t n = 0; n < shape.tokens; ++n) {
        for (int64_t c = 0; c < shape.in; ++c) {
          double sum = 0;
          for (int64_t o = 0; o < shape.out; ++o) sum += dys[n * shape.out + o] * ws[o * shape.in + c];
          store(dx, n * shape.in + c, sum);
        }
      }
    });
  }

  void backward_weight(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor /*workspace*/) override {
    const auto [N, C, O, T, has_bias] = shape_;
    ArgumentCheck("linear backward_weight")
        .tensor("dy", dy, {N, O}, {T})
        .tensor("x", x, {N, C}, {T})
        .tensor("dw", dw, {O, C}, {DType::fp32, DType::fp64});
    CpuStream::of(stream).enqueue("reference linear backward_weight", [=, shape = shape_] {
      const std::vector<double> dys = load_all(dy);
      const std::vector<double> xs = load_all(x);
      for (int64_t o = 0; o < shape.out; ++o) {
        for (int64_t c = 0; c < shape.in; ++c) {
          double sum = load(dw, o * shape.in + c);
          for (int64_t n = 0; n < shape.tokens; ++n) sum += dys[n * shape.out + o] * xs[n * shape.in + c];
          store(dw, o * shape.in + c, sum);
        }
      }
    });
  }

  void first_backward_weight(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor workspace) override {
    CpuStream::of(stream).enqueue("reference zeros", [=] {
      for (int64_t i = 0; i < dw.elements(); ++i) store(dw, i, 0.0);
    });
    backward_weight(stream, dy, x, dw, workspace);
  }

  void backward_bias(Stream& stream, Tensor dy, Tensor dbias) override {
    const auto [N, C, O, T, has_bias] = shape_;
    ArgumentCheck("linear backward_bias")
        .tensor("dy", dy, {N, O}, {T})
        .tensor("dbias", dbias, {O}, {DType::fp32, DType::fp64});
    CpuStream::of(stream).enqueue("reference linear backward_bias", [=, shape = shape_] {
      for (int64_t o = 0; o < shape.out; ++o) {
        double sum = load(dbias, o);
        for (int64_t n = 0; n < shape.tokens; ++n) sum += load(dy, n * shape.out + o);
        store(dbias, o, sum);
      }
    });
  }

 private:
  LinearShape shape_;
};

class ReferenceGemm final : public math::Gemm {
 public:
  math::Support supports(const LinearShape& /*shape*/) const override { return math::Support::yes(); }
  std::unique_ptr<math::Linear> plan_linear(const LinearShape& shape) override {
    return std::make_unique<ReferenceLinear>(shape);
  }
};

}  // namespace

std::unique_ptr<math::Gemm> make_gemm(Device& /*device*/) {
  return std::make_unique<ReferenceGemm>();
}

}  // namespace penstock::reference
