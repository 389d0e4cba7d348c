#include "kernels/reference/cached_attention.h"

#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/device/error.h"
#include "tests/kernels/math/operation.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::CachedAttention;
using math::CachedAttentionShape;

constexpr Implementations<CachedAttention> implementations{reference::make_cached_attention,
                                                           under_test::make_cached_attention};

/// Rows by slot and position; −1: no token.
struct Row {
  int slot;
  int position;
};

struct CachedCase {
  CachedAttentionShape shape;
  std::vector<Row> rows;
};

std::vector<Row> run_of(int slot, int first, int count, int rows) {
  std::vector<Row> all;
  for (int i = 0; i < rows; ++i) all.push_back(i < count ? Row{slot, first + i} : Row{-1, 0});
  return all;
}

std::string case_name(const ::testing::TestParamInfo<CachedCase>& info) {
  const CachedAttentionShape& s = info.param.shape;
  return fmt::format("{}_{}_R{}_S{}_P{}_H{}_G{}_D{}", info.index, name_of(s.dtype), s.rows, s.slots,
                     s.positions, s.heads, s.kv_heads, s.head_dim);
}

class CachedAttentionTest : public ::testing::TestWithParam<CachedCase> {};

TEST_P(CachedAttentionTest, EqualsTheReference) {
  const CachedAttentionShape& shape = GetParam().shape;
  std::vector<double> slots;
  std::vector<double> positions;
  for (const Row& row : GetParam().rows) {
    slots.push_back(row.slot);
    positions.push_back(row.position);
  }
  Operation op("cached attention", shape.dtype);
  const int qkv = op.input("qkv", shape.dtype, {shape.rows, shape.row_elements()});
  const int slot = op.given("slots", DType::i32, {shape.rows}, slots);
  const int position = op.given("positions", DType::i32, {shape.rows}, positions);
  const int keys = op.accumulated("keys", shape.dtype, shape.cache());
  const int values = op.accumulated("values", shape.dtype, shape.cache());
  const int out = op.output("out", shape.dtype, {shape.rows, shape.heads * shape.head_dim});
  op.exactly(keys);
  op.exactly(values);
  std::unique_ptr<math::CachedAttentionPlan> plan;
  op.check(implementations, [&](CachedAttention& attention, Call& call) {
    plan = attention.plan(shape);
    plan->forward(call.stream(), call[qkv], call[slot], call[position], call[keys], call[values], call[out],
                  call.workspace(plan->workspace_bytes()));
    call.stream().synchronize();
  });
}

// Single tokens of several texts, at odd and even places; a text's first; rows without a token; whole tiles,
// a tile that is not full, several; a prompt's end of less than a tile; groups of 1, 2, 4 and 80; odd heads.
INSTANTIATE_TEST_SUITE_P(
    Rows, CachedAttentionTest,
    ::testing::Values(CachedCase{{1, 1, 1, 1, 1, 2, DType::fp32}, {{0, 0}}},
                      CachedCase{{3, 4, 200, 4, 2, 64, DType::fp32}, {{2, 0}, {0, 199}, {3, 63}}},
                      CachedCase{{4, 2, 70, 3, 3, 17, DType::fp32}, {{1, 64}, {-1, 0}, {0, 69}, {-1, 0}}},
                      CachedCase{{2, 2, 130, 80, 1, 6, DType::fp32}, {{0, 128}, {1, 65}}},
                      CachedCase{{64, 2, 70, 2, 1, 16, DType::fp32}, run_of(1, 0, 64, 64)},
                      CachedCase{{64, 2, 140, 2, 2, 9, DType::fp32}, run_of(0, 64, 40, 64)},
                      CachedCase{{192, 1, 300, 2, 1, 8, DType::fp32}, run_of(0, 64, 150, 192)},
                      CachedCase{{16, 3, 40, 4, 1, 24, DType::fp32}, run_of(2, 16, 11, 16)},
                      CachedCase{{64, 64, 70, 1, 1, 4, DType::fp32}, run_of(7, 64, 1, 64)},
                      CachedCase{{3, 3, 200, 4, 2, 64, DType::bf16}, {{2, 5}, {0, 199}, {1, 63}}},
                      CachedCase{{64, 1, 130, 2, 1, 64, DType::bf16}, run_of(0, 64, 50, 64)},
                      CachedCase{{3, 3, 90, 2, 2, 33, DType::fp16}, {{0, 0}, {1, 89}, {2, 64}}}),
    case_name);

TEST(CachedAttentionArguments, NameWhatIsWrong) {
  const auto device = cpu::make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  std::vector<float> memory(1 << 12);
  const auto tensor = [&](Shape shape, DType dtype = DType::fp32) {
    return Tensor(memory.data(), dtype, shape);
  };
  for (const auto& attention :
       {reference::make_cached_attention(*device), under_test::make_cached_attention(*device)}) {
    EXPECT_FALSE(attention->supports({1, 1, 4, 3, 2, 8, DType::fp32}));
    EXPECT_FALSE(attention->supports({1, 0, 4, 2, 2, 8, DType::fp32}));
    EXPECT_THROW(attention->plan({0, 1, 4, 2, 2, 8, DType::fp32}), DeviceError);
    const auto plan = attention->plan({1, 1, 4, 2, 1, 2, DType::fp32});
    const Tensor workspace(memory.data(), DType::u8, {static_cast<int64_t>(plan->workspace_bytes())});
    try {
      plan->forward(*stream, tensor({1, 8}), tensor({1}, DType::i32), tensor({1}, DType::i32),
                    tensor({1, 1, 4, 2}), tensor({1, 1, 3, 2}), tensor({1, 4}), workspace);
      FAIL() << "a cache of 3 positions was accepted for 4";
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), "cached attention: values is fp32 (1, 1, 3, 2); expected fp32 (1, 1, 4, 2)");
    }
  }
}

}  // namespace
}  // namespace penstock::testing
