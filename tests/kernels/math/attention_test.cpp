
#include "kernels/reference/attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/device/error.h"
#include "tests/kernels/math/attention_checks.h"
#include "tests/kernels/math/random_sizes.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::Attention;
using math::AttentionShape;

constexpr Implementations<Attention> attentions{reference::make_attention, under_test::make_attention};

struct AttentionCase {
  AttentionShape shape;
  int documents = 0;  ///< per sequence; 0: no starts
};

std::string case_name(const ::testing::TestParamInfo<AttentionCase>& info) {
  const AttentionShape& s = info.param.shape;
  return fmt::format("{}_B{}_T{}_H{}_G{}_D{}_documents{}", name_of(s.dtype), s.batch, s.tokens, s.heads,
                     s.kv_heads, s.head_dim, info.param.documents);
}

class AttentionTest : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionTest, Forward) {
  check_attention_forward(attentions, GetParam().shape, GetParam().documents);
}

TEST_P(AttentionTest, Backward) {
  check_attention_backward(attentions, GetParam().shape, GetParam().documents);
}

// One token, odd lengths, whole tiles and one token more; odd head sizes; groups of 1, 2 and 4; documents
// that end inside and at the end of tiles. One key head makes 2 and more threads split the backward pass.
INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
    ::testing::Values(
        AttentionCase{{1, 1, 1, 1, 2, DType::fp32}}, AttentionCase{{2, 1, 4, 1, 80, DType::fp32}},
        AttentionCase{{1, 65, 2, 1, 6, DType::fp32}}, AttentionCase{{2, 37, 4, 1, 80, DType::fp32}},
        AttentionCase{{1, 128, 2, 2, 128, DType::fp32}}, AttentionCase{{1, 193, 4, 1, 16, DType::fp32}, 3},
        AttentionCase{{2, 150, 2, 1, 17, DType::fp32}, 7}, AttentionCase{{2, 257, 1, 1, 64, DType::fp32}, 2},
        AttentionCase{{1, 256, 1, 1, 3, DType::fp32}, 4}, AttentionCase{{1, 1, 2, 2, 5, DType::bf16}},
        AttentionCase{{2, 67, 4, 1, 80, DType::bf16}}, AttentionCase{{1, 131, 2, 2, 64, DType::bf16}, 3},
        AttentionCase{{1, 200, 2, 1, 128, DType::bf16}}, AttentionCase{{2, 64, 1, 1, 8, DType::bf16}, 2},
        AttentionCase{{1, 67, 4, 1, 17, DType::fp16}}, AttentionCase{{1, 131, 2, 1, 64, DType::fp16}, 3}),
    case_name);

std::vector<AttentionCase> random_attentions() {
  std::vector<AttentionCase> cases;
  std::mt19937_64 random = random_shapes(5);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp32, DType::fp16}) {
    const int64_t kv_heads = random_size(random, 2);
    cases.push_back({{.batch = random_size(random, 2),
                      .tokens = random_size(random, 150),
                      .heads = kv_heads * random_size(random, 3),
                      .kv_heads = kv_heads,
                      .head_dim = random_size(random, 128),
                      .dtype = dtype},
                     static_cast<int>(random_size(random, 4)) - 1});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Random, AttentionTest, ::testing::ValuesIn(random_attentions()), case_name);

TEST(AttentionArguments, NameWhatIsWrong) {
  const auto device = cpu::make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  std::vector<float> memory(1 << 16);
  const auto tensor = [&](Shape shape) { return Tensor(memory.data(), DType::fp32, shape); };
  for (const auto& attention : {reference::make_attention(*device), under_test::make_attention(*device)}) {
    EXPECT_FALSE(attention->supports({1, 4, 3, 2, 8, DType::fp32}));
    EXPECT_FALSE(attention->supports({1, 4, 2, 2, 0, DType::fp32}));
    EXPECT_FALSE(attention->supports({1, 4, 2, 2, 8, DType::i32}));
    EXPECT_TRUE(attention->supports({1, 4, 2, 2, 7, DType::bf16}));
    EXPECT_THROW(attention->plan({1, 4, 3, 2, 8, DType::fp32}), DeviceError);
    const auto plan = attention->plan({1, 4, 2, 1, 2, DType::fp32});
    const Tensor workspace(memory.data(), DType::u8, {static_cast<int64_t>(plan->workspace_bytes())});
    try {
      plan->forward(*stream, tensor({4, 6}), {}, tensor({4, 4}), tensor({1, 2, 4}), workspace);
      FAIL() << "rows of 6 were accepted for (2 + 2 · 1) heads of 2";
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), "attention forward: qkv is fp32 (4, 6); expected fp32 (4, 8)");
    }
    EXPECT_THROW(plan->backward(*stream, tensor({4, 4}), tensor({4, 8}), {}, tensor({4, 4}),
                                tensor({2, 1, 4}), tensor({4, 8}), workspace),
                 UsageError);
  }
  const auto plan = under_test::make_attention(*device)->plan({1, 4, 2, 1, 2, DType::fp32});
  EXPECT_THROW(plan->forward(*stream, tensor({4, 8}), {}, tensor({4, 4}), tensor({1, 2, 4}), {}), UsageError);
}

}  // namespace
}  // namespace penstock::testing
