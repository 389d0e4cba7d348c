
#include "kernels/reference/norm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/device/error.h"
#include "tests/kernels/math/operation.h"
#include "tests/kernels/math/random_sizes.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::Norm;

constexpr Implementations<Norm> norms{reference::make_norm, under_test::make_norm};
constexpr float epsilon = 1e-5F;

struct NormCase {
  DType dtype;
  int64_t tokens;
  int64_t channels;
};

std::string case_name(const ::testing::TestParamInfo<NormCase>& info) {
  return fmt::format("{}_{}x{}", name_of(info.param.dtype), info.param.tokens, info.param.channels);
}

class NormTest : public ::testing::TestWithParam<NormCase> {};

TEST_P(NormTest, LayerNormForward) {
  const auto [dtype, n, c] = GetParam();
  Operation op("layer_norm_forward", dtype);
  const int x = op.input("x", dtype, {n, c}, 2.0, 0.5);
  const int weight = op.input("weight", DType::fp32, {c}, 0.3, 1.0);
  const int bias = op.input("bias", DType::fp32, {c});
  const int y = op.output("y", dtype, {n, c});
  const int mean = op.output("mean", DType::fp32, {n});
  const int rstd = op.output("rstd", DType::fp32, {n});
  op.check(norms, [=](Norm& norm, Call& call) {
    norm.layer_norm_forward(call.stream(), call[x], call[weight], call[bias], epsilon, call[y], call[mean],
                            call[rstd]);
  });
}

TEST_P(NormTest, LayerNormBackward) {
  const auto [dtype, n, c] = GetParam();
  for (const bool residual : {false, true}) {
    Operation op("layer_norm_backward", dtype);
    const int dy = op.input("dy", dtype, {n, c});
    const int x = op.input("x", dtype, {n, c}, 2.0);
    const int weight = op.input("weight", DType::fp32, {c}, 0.3, 1.0);
    const int mean = op.input("mean", DType::fp32, {n}, 0.1);
    const int rstd = op.input("rstd", DType::fp32, {n}, 0.1, 0.5);
    // The gradient of the residual is read from the memory that dx is written to.
    const int dx = residual ? op.accumulated("dx", dtype, {n, c}) : op.output("dx", dtype, {n, c});
    const int dweight = op.accumulated("dweight", DType::fp32, {c});
    const int dbias = op.accumulated("dbias", DType::fp32, {c});
    op.check(norms, [=](Norm& norm, Call& call) {
      norm.layer_norm_backward(call.stream(), call[dy], call[x], call[weight], call[mean], call[rstd],
                               residual ? call[dx] : Tensor(), call[dx], call[dweight], call[dbias]);
    });
  }
}

TEST_P(NormTest, RmsNormForward) {
  const auto [dtype, n, c] = GetParam();
  Operation op("rms_norm_forward", dtype);
  const int x = op.input("x", dtype, {n, c}, 2.0);
  const int weight = op.input("weight", DType::fp32, {c}, 0.3, 1.0);
  const int y = op.output("y", dtype, {n, c});
  const int rstd = op.output("rstd", DType::fp32, {n});
  op.check(norms, [=](Norm& norm, Call& call) {
    norm.rms_norm_forward(call.stream(), call[x], call[weight], epsilon, call[y], call[rstd]);
  });
}

TEST_P(NormTest, RmsNormBackward) {
  const auto [dtype, n, c] = GetParam();
  for (const bool residual : {false, true}) {
    Operation op("rms_norm_backward", dtype);
    const int dy = op.input("dy", dtype, {n, c});
    const int x = op.input("x", dtype, {n, c}, 2.0);
    const int weight = op.input("weight", DType::fp32, {c}, 0.3, 1.0);
    const int rstd = op.input("rstd", DType::fp32, {n}, 0.1, 0.5);
    const int dresidual = op.input("dresidual", dtype, {n, c});
    const int dx = op.output("dx", dtype, {n, c});
    const int dweight = op.accumulated("dweight", DType::fp32, {c});
    op.check(norms, [=](Norm& norm, Call& call) {
      norm.rms_norm_backward(call.stream(), call[dy], call[x], call[weight], call[rstd],
                             residual ? call[dresidual] : Tensor(), call[dx], call[dweight]);
    });
  }
}

// 1, odd, below and above the 16 lanes, the 64 partial sums, the column and the token blocks.
INSTANTIATE_TEST_SUITE_P(Shapes, NormTest,
                         ::testing::Values(NormCase{DType::fp32, 1, 1}, NormCase{DType::fp32, 3, 7},
                                           NormCase{DType::fp32, 65, 130}, NormCase{DType::fp32, 130, 65},
                                           NormCase{DType::fp32, 33, 768}, NormCase{DType::bf16, 1, 1},
                                           NormCase{DType::bf16, 5, 19}, NormCase{DType::bf16, 67, 129},
                                           NormCase{DType::bf16, 17, 256}, NormCase{DType::fp16, 5, 19},
                                           NormCase{DType::fp16, 17, 256}),
                         case_name);

std::vector<NormCase> random_norms() {
  std::vector<NormCase> cases;
  std::mt19937_64 random = random_shapes(1);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (int i = 0; i < 3; ++i) cases.push_back({dtype, random_size(random, 40), random_size(random, 700)});
    // Longer than a block of 256 threads keeps in registers.
    cases.push_back({dtype, 2, (dtype == DType::fp32 ? 4097 : 8193) + random_size(random, 300)});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Random, NormTest, ::testing::ValuesIn(random_norms()));

struct HeadNormCase {
  DType dtype;
  int64_t tokens, heads, kv_heads, head_dim;
};

class HeadNormTest : public ::testing::TestWithParam<HeadNormCase> {};

TEST_P(HeadNormTest, Forward) {
  const auto [dtype, n, h, g, d] = GetParam();
  Operation op("head_norm_forward", dtype);
  const int qkv = op.input("qkv", dtype, {n, (h + 2 * g) * d}, 2.0);
  const int weight_q = op.input("weight_q", DType::fp32, {d}, 0.3, 1.0);
  const int weight_k = op.input("weight_k", DType::fp32, {d}, 0.3, 1.0);
  const int out = op.output("out", dtype, {n, (h + 2 * g) * d});
  const int rstd = op.output("rstd", DType::fp32, {n, h + g});
  op.check(norms, [=, h = h, g = g](Norm& norm, Call& call) {
    norm.head_norm_forward(call.stream(), call[qkv], call[weight_q], call[weight_k], epsilon, h, g, call[out],
                           call[rstd]);
  });
}

TEST_P(HeadNormTest, Backward) {
  const auto [dtype, n, h, g, d] = GetParam();
  Operation op("head_norm_backward", dtype);
  const int dqkv = op.accumulated("dqkv", dtype, {n, (h + 2 * g) * d});
  const int qkv = op.input("qkv", dtype, {n, (h + 2 * g) * d}, 2.0);
  const int weight_q = op.input("weight_q", DType::fp32, {d}, 0.3, 1.0);
  const int weight_k = op.input("weight_k", DType::fp32, {d}, 0.3, 1.0);
  const int rstd = op.input("rstd", DType::fp32, {n, h + g}, 0.1, 0.5);
  const int dweight_q = op.accumulated("dweight_q", DType::fp32, {d});
  const int dweight_k = op.accumulated("dweight_k", DType::fp32, {d});
  op.check(norms, [=, h = h, g = g](Norm& norm, Call& call) {
    norm.head_norm_backward(call.stream(), call[dqkv], call[qkv], call[weight_q], call[weight_k], call[rstd],
                            h, g, call[dweight_q], call[dweight_k]);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, HeadNormTest,
    ::testing::Values(HeadNormCase{DType::fp32, 1, 1, 1, 1}, HeadNormCase{DType::fp32, 67, 4, 1, 6},
                      HeadNormCase{DType::fp32, 9, 8, 2, 80}, HeadNormCase{DType::bf16, 33, 4, 2, 64},
                      HeadNormCase{DType::bf16, 5, 2, 1, 17}, HeadNormCase{DType::fp16, 33, 4, 2, 64}));

std::vector<HeadNormCase> random_head_norms() {
  std::vector<HeadNormCase> cases;
  std::mt19937_64 random = random_shapes(2);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp32, DType::bf16}) {
    const int64_t kv_heads = random_size(random, 3);
    cases.push_back({dtype, random_size(random, 30), kv_heads * random_size(random, 3), kv_heads,
                     random_size(random, 160)});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Random, HeadNormTest, ::testing::ValuesIn(random_head_norms()));

TEST(NormArguments, NameWhatIsWrong) {
  const auto device = cpu::make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  std::vector<float> memory(64);
  const auto tensor = [&](Shape shape) { return Tensor(memory.data(), DType::fp32, shape); };
  for (const auto& norm : {reference::make_norm(*device), under_test::make_norm(*device)}) {
    try {
      norm->layer_norm_forward(*stream, tensor({2, 4}), tensor({5}), tensor({4}), epsilon, tensor({2, 4}),
                               tensor({2}), tensor({2}));
      FAIL() << "a weight of 5 for 4 channels was accepted";
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), "layer_norm_forward: weight is fp32 (5); expected fp32 (4)");
    }
    EXPECT_THROW(norm->rms_norm_backward(*stream, tensor({2, 4}), tensor({2, 4}), tensor({4}), tensor({3}),
                                         {}, tensor({2, 4}), tensor({4})),
                 UsageError);
    EXPECT_THROW(norm->head_norm_forward(*stream, tensor({2, 9}), tensor({2}), tensor({2}), epsilon, 2, 1,
                                         tensor({2, 9}), tensor({2, 3})),
                 UsageError);
  }
  EXPECT_FALSE(under_test::make_norm(*device)->supports(DType::fp64, 4));
  EXPECT_FALSE(under_test::make_norm(*device)->supports(DType::fp32, 0));
  EXPECT_TRUE(under_test::make_norm(*device)->supports(DType::bf16, 1));
}

}  // namespace
}  // namespace penstock::testing
