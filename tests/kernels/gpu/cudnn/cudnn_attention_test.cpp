// cuDNN's attention against the reference; tests/kernels/math does the same with the built-in one.
#include "kernels/cuda/cudnn_attention.h"

#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/math/attention_checks.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

std::unique_ptr<math::Attention> make_cudnn(Device& device) {
  cuda::OptionalAttention made = cuda::make_cudnn_attention(device);
  if (made.attention == nullptr) throw DeviceError(made.description);
  return std::move(made.attention);
}

constexpr Implementations<math::Attention> attentions{reference::make_attention, make_cudnn};

class CudnnAttention : public ::testing::TestWithParam<math::AttentionShape> {};

TEST_P(CudnnAttention, Forward) {
  check_attention_forward(attentions, GetParam(), 0, under_test::product_shift);
}
TEST_P(CudnnAttention, Backward) {
  check_attention_backward(attentions, GetParam(), 0, under_test::product_shift);
}

// Shapes of the models, and lengths that are no multiple of a tile; groups of 1, 2 and 4.
constexpr std::array<math::AttentionShape, 6> shapes{{{2, 128, 4, 4, 64, DType::bf16},
                                                      {1, 256, 4, 2, 128, DType::bf16},
                                                      {2, 200, 4, 1, 64, DType::bf16},
                                                      {1, 129, 2, 2, 128, DType::bf16},
                                                      {3, 64, 2, 1, 96, DType::bf16},
                                                      {2, 128, 4, 2, 64, DType::fp16}}};
std::string case_name(const ::testing::TestParamInfo<math::AttentionShape>& shape) {
  const math::AttentionShape& s = shape.param;
  return fmt::format("B{}_T{}_H{}_G{}_D{}_{}", s.batch, s.tokens, s.heads, s.kv_heads, s.head_dim,
                     name_of(s.dtype));
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudnnAttention, ::testing::ValuesIn(shapes), case_name);

}  // namespace
}  // namespace penstock::testing
