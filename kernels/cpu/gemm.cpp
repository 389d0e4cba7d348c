#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/processor.h"
#include "kernels/cpu/row_product.h"
#include "kernels/cpu/stream.h"
#include "kernels/device/error.h"
#include "kernels/math/gemm_check.h"
#include "kernels/math/with_element.h"

namespace penstock::cpu {
namespace {

using math::LinearShape;

/// Columns one piece of work of column_sums adds, and tokens in one partial sum (which keeps long sums
/// accurate).
constexpr int64_t column_block = 64;
constexpr int64_t token_block = 128;

/// dbias (O) += Σ over tokens of dy (N,O): sums of token_block tokens, added in ascending order.
template <class T>
void column_sums(const T* dy, int64_t tokens, int64_t columns, float* dbias) {
  parallel_ranges(columns, column_block, [=](int64_t begin, int64_t end) {
    const int64_t width = end - begin;
    std::array<float, column_block> total{};
    for (int64_t block = 0; block < tokens; block += token_block) {
      std::array<float, column_block> part{};
      for (int64_t n = block; n < std::min(tokens, block + token_block); ++n) {
        const T* row = dy + n * columns + begin;
        for (int64_t j = 0; j < width; ++j) part[j] += static_cast<float>(row[j]);
      }
      for (int64_t j = 0; j < width; ++j) total[j] += part[j];
    }
    for (int64_t j = 0; j < width; ++j) dbias[begin + j] += total[j];
  });
}

class CpuLinear final : public math::Linear {
 public:
  CpuLinear(const LinearShape& shape, int threads)
      : shape_(shape),
        forward_({.rows = shape.tokens,
                  .columns = shape.out,
                  .depth = shape.in,
                  .in = shape.dtype,
                  .out = shape.dtype,
                  .b_transposed = true,
                  .bias = shape.bias},
                 threads),
        backward_input_({.rows = shape.tokens,
                         .columns = shape.in,
                         .depth = shape.out,
                         .in = shape.dtype,
                         .out = shape.dtype},
                        threads),
        backward_weight_({.rows = shape.out,
                          .columns = shape.in,
                          .depth = shape.tokens,
                          .in = shape.dtype,
                          .out = DType::fp32,
                          .a_transposed = true,
                          .accumulate = true},
                         threads),
        first_backward_weight_({.rows = shape.out,
                                .columns = shape.in,
                                .depth = shape.tokens,
                                .in = shape.dtype,
                                .out = DType::fp32,
                                .a_transposed = true},
                               threads) {}

  const LinearShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override {
    return std::max({forward_.workspace_bytes(), backward_input_.workspace_bytes(),
                     backward_weight_.workspace_bytes(), first_backward_weight_.workspace_bytes()});
  }

  void forward(Stream& stream, Tensor x, Tensor w, Tensor bias, Tensor y, Tensor workspace) override {
    math::check_linear_forward(shape_, x, w, bias, y, workspace, forward_.workspace_bytes());
    CpuStream::of(stream).enqueue(
        "linear forward", [=, this] { forward_.run(x.data, w.data, bias.data, y.data, workspace.data); });
  }

  void backward_input(Stream& stream, Tensor dy, Tensor w, Tensor dx, Tensor workspace) override {
    math::check_linear_backward_input(shape_, dy, w, dx, workspace, backward_input_.workspace_bytes());
    CpuStream::of(stream).enqueue("linear backward_input", [=, this] {
      backward_input_.run(dy.data, w.data, nullptr, dx.data, workspace.data);
    });
  }

  void backward_weight(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor workspace) override {
    add_or_write(stream, dy, x, dw, workspace, backward_weight_);
  }

  void first_backward_weight(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor workspace) override {
    add_or_write(stream, dy, x, dw, workspace, first_backward_weight_);
  }

  void backward_bias(Stream& stream, Tensor dy, Tensor dbias) override {
    math::check_linear_backward_bias(shape_, dy, dbias);
    CpuStream::of(stream).enqueue("linear backward_bias", [=] {
      const int64_t tokens = dy.shape[0];
      const int64_t columns = dy.shape[1];
      math::with_element(
          dy.dtype, [&]<class T>(T) { column_sums(dy.as<const T>(), tokens, columns, dbias.as<float>()); });
    });
  }

 private:
  void add_or_write(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor workspace, Product& product) {
    math::check_linear_backward_weight(shape_, dy, x, dw, workspace, product.workspace_bytes());
    CpuStream::of(stream).enqueue("linear backward_weight", [=, &product] {
      product.run(dy.data, x.data, nullptr, dw.data, workspace.data);
    });
  }

  LinearShape shape_;
  Product forward_;
  Product backward_input_;
  Product backward_weight_;
  Product first_backward_weight_;
};

/// Few rows, forward alone.
class CpuFewRows final : public math::Linear {
 public:
  explicit CpuFewRows(const LinearShape& shape)
      : shape_(shape), product_(shape.tokens, shape.out, shape.in, shape.dtype, shape.dtype) {}

  const LinearShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return product_.workspace_bytes(); }

  void forward(Stream& stream, Tensor x, Tensor w, Tensor bias, Tensor y, Tensor workspace) override {
    math::check_linear_forward(shape_, x, w, bias, y, workspace, workspace_bytes());
    CpuStream::of(stream).enqueue("linear forward", [=, this] {
      product_.run(shape_.tokens, x.data, w.data, bias.as<const float>(), y.data, workspace.data);
    });
  }
  void backward_input(Stream& /*stream*/, Tensor /*dy*/, Tensor /*w*/, Tensor /*dx*/,
                      Tensor /*workspace*/) override {
    refuse();
  }
  void backward_weight(Stream& /*stream*/, Tensor /*dy*/, Tensor /*x*/, Tensor /*dw*/,
                       Tensor /*workspace*/) override {
    refuse();
  }
  void backward_bias(Stream& /*stream*/, Tensor /*dy*/, Tensor /*dbias*/) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw UsageError("a plan for few rows (plan_few_rows) has no backward; expected one of plan_linear");
  }

  LinearShape shape_;
  RowProduct product_;
};

class CpuGemm final : public math::Gemm {
 public:
  explicit CpuGemm(int threads) : threads_(threads) {}

  math::Support supports(const LinearShape& shape) const override {
    if (math::Support sizes = math::supports_linear_sizes(shape); !sizes) return sizes;
    return supports_products(shape.dtype);
  }
  bool overwrites() const override { return true; }

  std::unique_ptr<math::Linear> plan_linear(const LinearShape& shape) override {
    if (const math::Support support = supports(shape); !support) {
      throw DeviceError("linear: " + support.reason);
    }
    return std::make_unique<CpuLinear>(shape, threads_);
  }

  std::unique_ptr<math::Linear> plan_few_rows(const LinearShape& shape) override {
    if (const math::Support support = supports(shape); !support) {
      throw DeviceError("linear: " + support.reason);
    }
    return std::make_unique<CpuFewRows>(shape);
  }

 private:
  int threads_;
};

}  // namespace

math::Support supports_products(DType dtype) {
  if (dtype == DType::fp32 || dtype == DType::fp16) return math::Support::yes();
  if (dtype != DType::bf16) {
    return math::Support::no(
        fmt::format("the processor's matrix products are fp32, bf16 and fp16, not {}", name_of(dtype)));
  }
  if (!processor_has_bf16()) {
    return math::Support::no(
        fmt::format("{} has no bf16 instructions (avx512_bf16 or amx_bf16); use fp32", processor_name()));
  }
  return math::Support::yes();
}

std::unique_ptr<math::Gemm> make_gemm(Device& device) {
  return std::make_unique<CpuGemm>(device.options().threads);
}

}  // namespace penstock::cpu
