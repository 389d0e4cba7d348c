
#include "kernels/reference/pointwise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/device/bfloat16.h"
#include "kernels/device/error.h"
#include "kernels/device/float16.h"
#include "kernels/math/philox.h"
#include "tests/kernels/math/operation.h"
#include "tests/kernels/math/random_sizes.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::DropoutSite;
using math::Pointwise;
using math::StepScalars;

constexpr Implementations<Pointwise> pointwise{reference::make_pointwise, under_test::make_pointwise};

struct PointwiseCase {
  DType dtype;
  int64_t rows;
  int64_t width;
};

std::string case_name(const ::testing::TestParamInfo<PointwiseCase>& info) {
  return fmt::format("{}_{}x{}", name_of(info.param.dtype), info.param.rows, info.param.width);
}

class PointwiseTest : public ::testing::TestWithParam<PointwiseCase> {};

TEST_P(PointwiseTest, GeluForward) {
  const auto [dtype, n, f] = GetParam();
  Operation op("gelu_forward", dtype);
  const int x = op.input("x", dtype, {n, f}, 3.0);
  const int y = op.output("y", dtype, {n, f});
  op.check(pointwise, [=](Pointwise& p, Call& call) { p.gelu_forward(call.stream(), call[x], call[y]); });
}

TEST_P(PointwiseTest, GeluBackwardInPlace) {
  const auto [dtype, n, f] = GetParam();
  Operation op("gelu_backward", dtype);
  const int x = op.input("x", dtype, {n, f}, 3.0);
  const int dx = op.accumulated("dx", dtype, {n, f});
  op.check(pointwise,
           [=](Pointwise& p, Call& call) { p.gelu_backward(call.stream(), call[dx], call[x], call[dx]); });
}

TEST_P(PointwiseTest, SwigluForward) {
  const auto [dtype, n, f] = GetParam();
  Operation op("swiglu_forward", dtype);
  const int gate_up = op.input("gate_up", dtype, {n, 2 * f}, 2.0);
  const int y = op.output("y", dtype, {n, f});
  op.check(pointwise,
           [=](Pointwise& p, Call& call) { p.swiglu_forward(call.stream(), call[gate_up], call[y]); });
}

TEST_P(PointwiseTest, SwigluBackward) {
  const auto [dtype, n, f] = GetParam();
  for (const bool in_place : {false, true}) {
    Operation op("swiglu_backward", dtype);
    const int dy = op.input("dy", dtype, {n, f});
    const int gate_up = in_place ? op.accumulated("gate_up", dtype, {n, 2 * f}, 2.0)
                                 : op.input("gate_up", dtype, {n, 2 * f}, 2.0);
    const int dgate_up = in_place ? gate_up : op.output("dgate_up", dtype, {n, 2 * f});
    op.check(pointwise, [=](Pointwise& p, Call& call) {
      p.swiglu_backward(call.stream(), call[dy], call[gate_up], call[dgate_up]);
    });
  }
}

TEST_P(PointwiseTest, Add) {
  const auto [dtype, n, f] = GetParam();
  for (const bool in_place : {false, true}) {
    Operation op("add", dtype);
    const int a = in_place ? op.accumulated("a", dtype, {n, f}) : op.input("a", dtype, {n, f});
    const int b = op.input("b", dtype, {n, f});
    const int y = in_place ? a : op.output("y", dtype, {n, f});
    op.check(pointwise, [=](Pointwise& p, Call& call) { p.add(call.stream(), call[a], call[b], call[y]); });
  }
}

TEST_P(PointwiseTest, Dropout) {
  const auto [dtype, n, c] = GetParam();
  const StepScalars scalars{.step = 0x1'0000'0003ULL};
  for (const float probability : {0.0F, 0.001F, 0.3F, 0.5F}) {
    const DropoutSite site{.seed = 0x1234'5678'9abc'def0ULL, .site = 5, .probability = probability};
    Operation op("dropout", dtype);
    const int x = op.input("x", dtype, {2 * n, c});
    const int samples = op.given("samples", DType::i64, {2}, {17.0, 4294967299.0});
    const int y = op.output("y", dtype, {2 * n, c});
    if (probability == 0 || probability == 0.5F) op.exactly(y);  // scaling rounds nothing
    op.check(pointwise, [=](Pointwise& p, Call& call) {
      p.dropout(call.stream(), call[x], call[samples], call.copy_of(scalars), site, call[y]);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PointwiseTest,
                         ::testing::Values(PointwiseCase{DType::fp32, 1, 1}, PointwiseCase{DType::fp32, 3, 5},
                                           PointwiseCase{DType::fp32, 7, 333},
                                           PointwiseCase{DType::fp32, 37, 1031},
                                           PointwiseCase{DType::bf16, 1, 1}, PointwiseCase{DType::bf16, 5, 7},
                                           PointwiseCase{DType::bf16, 33, 1030},
                                           PointwiseCase{DType::fp16, 5, 7},
                                           PointwiseCase{DType::fp16, 33, 1030}),
                         case_name);

std::vector<PointwiseCase> random_pointwise() {
  std::vector<PointwiseCase> cases;
  std::mt19937_64 random = random_shapes(3);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (int i = 0; i < 4; ++i) cases.push_back({dtype, random_size(random, 30), random_size(random, 700)});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Random, PointwiseTest, ::testing::ValuesIn(random_pointwise()));

TEST(Pointwise, ConvertsAndRoundsToNearestEven) {
  for (const DType from : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const DType to : {DType::fp32, DType::bf16, DType::fp16}) {
      Operation op("convert", from == to ? DType::fp32 : to);
      const int src = op.input("src", from, {3, 347});
      const int dst = op.output("dst", to, {3, 347});
      op.exactly(dst);
      op.check(pointwise, [=](Pointwise& p, Call& call) { p.convert(call.stream(), call[src], call[dst]); });
    }
  }
  // Halfway cases go to the even neighbour, the largest number to infinity, NaN stays NaN.
  const std::array<float, 5> values = {std::bit_cast<float>(0x3f808000U), std::bit_cast<float>(0x3f818000U),
                                       std::bit_cast<float>(0x3f808001U), std::bit_cast<float>(0x7f7fffffU),
                                       std::bit_cast<float>(0x7f800001U)};
  const Lane lane(Place::tested);
  Call call(lane);
  GuardedBuffer& from = call.place("values", DType::fp32, {5});
  GuardedBuffer& to = call.place("rounded", DType::bf16, {5});
  from.write_bytes(values.data());
  under_test::make_pointwise(*lane.device)->convert(*lane.stream, from.tensor(), to.tensor());
  lane.stream->synchronize();
  std::array<bfloat16, 5> rounded{};
  std::memcpy(rounded.data(), to.bytes().data(), sizeof(rounded));
  EXPECT_EQ(rounded[0].bits, 0x3f80);
  EXPECT_EQ(rounded[1].bits, 0x3f82);
  EXPECT_EQ(rounded[2].bits, 0x3f81);
  EXPECT_EQ(rounded[3].bits, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(rounded[4])));
}

// Every one of the 65536 comes back as it went, and halfway cases between neighbours go to the even one: the
// rounding of the processor's numbers and of the device's are the same.
TEST(Pointwise, ConvertsEveryFp16AndRoundsHalfwayCasesToEven) {
  constexpr int64_t count = 0x7c00;  // finite, not negative: in the order of their bits
  std::vector<float> halves;
  std::vector<float> between;
  for (uint32_t bits = 0; bits < count; ++bits) {
    float16 half;
    half.bits = static_cast<uint16_t>(bits);
    halves.push_back(static_cast<float>(half));
    ASSERT_EQ(halves.back(), std::ldexp(static_cast<float>((bits & 0x3ffU) + (bits < 0x400U ? 0U : 0x400U)),
                                        static_cast<int>(std::max(bits >> 10, 1U)) - 25));
  }
  for (size_t i = 0; i + 1 < halves.size(); ++i) between.push_back((halves[i] + halves[i + 1]) / 2);
  between.push_back(65520.0F);  // between the largest and what would be the next
  const Lane lane(Place::tested);
  Call call(lane);
  const auto family = under_test::make_pointwise(*lane.device);
  const auto rounded = [&](const std::vector<float>& values) {
    GuardedBuffer& from = call.place("values", DType::fp32, {count});
    GuardedBuffer& to = call.place("rounded", DType::fp16, {count});
    from.write_bytes(values.data());
    family->convert(*lane.stream, from.tensor(), to.tensor());
    lane.stream->synchronize();
    std::vector<uint16_t> bits(count);
    std::memcpy(bits.data(), to.bytes().data(), bits.size() * sizeof(uint16_t));
    return bits;
  };
  const std::vector<uint16_t> same = rounded(halves);
  const std::vector<uint16_t> even = rounded(between);
  std::vector<float> above = between;
  for (float& value : above) value = -std::nextafter(value, 1e9F);
  const std::vector<uint16_t> next = rounded(above);
  for (uint32_t bits = 0; bits < count; ++bits) {
    ASSERT_EQ(same[bits], bits);
    ASSERT_EQ(even[bits], (bits + 1) / 2 * 2) << bits;
    ASSERT_EQ(next[bits], 0x8000U + bits + 1) << bits;
  }
  const std::vector<uint16_t> special = rounded(std::vector<float>(count, std::nanf("")));
  EXPECT_GT(special[0] & 0x7fffU, 0x7c00U);
  EXPECT_EQ(rounded(std::vector<float>(count, -1e30F))[count - 1], 0xfc00U);
}

TEST(Pointwise, GeluStaysFiniteFarOutAndKeepsNaN) {
  const Lane lane(Place::tested);
  Call call(lane);
  const auto family = under_test::make_pointwise(*lane.device);
  const auto filled = [&](const char* name, const std::vector<double>& values) {
    GuardedBuffer& buffer = call.place(name, DType::fp32, {5});
    buffer.write(values);
    return buffer.tensor();
  };
  const Tensor x = filled("x", {-1e30, -40, 40, 1e30, std::numeric_limits<double>::quiet_NaN()});
  const Tensor ones = filled("ones", {1, 1, 1, 1, 1});
  GuardedBuffer& y_buffer = call.place("y", DType::fp32, {5});
  GuardedBuffer& dx_buffer = call.place("dx", DType::fp32, {5});
  family->gelu_forward(*lane.stream, x, y_buffer.tensor());
  family->gelu_backward(*lane.stream, ones, x, dx_buffer.tensor());
  lane.stream->synchronize();
  const std::vector<double> y = y_buffer.read();
  const std::vector<double> dx = dx_buffer.read();
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_EQ(y[1], 0.0F);
  EXPECT_EQ(y[2], 40.0F);
  EXPECT_EQ(y[3], static_cast<double>(1e30F));
  EXPECT_EQ(dx[0], 0.0F);
  EXPECT_EQ(dx[3], 1.0F);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_TRUE(std::isnan(dx[4]));
}

struct RopeCase {
  DType dtype;
  int64_t tokens, row, heads, head_dim;
};

class RopeTest : public ::testing::TestWithParam<RopeCase> {};

TEST_P(RopeTest, RotatesAndTurnsBack) {
  const auto [dtype, n, row, heads, d] = GetParam();
  constexpr int64_t positions = 40;
  std::vector<double> angles;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < d / 2; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      angles.push_back(std::cos(angle));
      angles.push_back(std::sin(angle));
    }
  }
  for (const bool inverse : {false, true}) {
    Operation op("rope", dtype);
    const int qkv = op.accumulated("qkv", dtype, {n, row});
    const int where = op.indices("positions", DType::i32, {n}, 0, positions - 1);
    const int table = op.given("table", DType::fp32, {positions, d / 2, 2}, angles);
    op.check(pointwise, [=, heads = heads, d = d](Pointwise& p, Call& call) {
      p.rope(call.stream(), call[qkv], call[where], call[table], heads, d, inverse);
    });
  }
  // There and back again is the identity: the inverse is the gradient of a rotation.
  Operation op("rope and back", DType::fp32);
  const int qkv = op.accumulated("qkv", DType::fp32, {n, row});
  const int where = op.indices("positions", DType::i32, {n}, 0, positions - 1);
  const int table = op.given("table", DType::fp32, {positions, d / 2, 2}, angles);
  const auto nothing = op.reference_result(pointwise, qkv, [](Pointwise&, Call&) {});
  const auto back = op.reference_result(pointwise, qkv, [=, heads = heads, d = d](Pointwise& p, Call& call) {
    p.rope(call.stream(), call[qkv], call[where], call[table], heads, d, false);
    p.rope(call.stream(), call[qkv], call[where], call[table], heads, d, true);
  });
  for (size_t i = 0; i < back.size(); ++i) EXPECT_NEAR(back[i], nothing[i], 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Shapes, RopeTest,
                         ::testing::Values(RopeCase{DType::fp32, 1, 2, 1, 2},
                                           RopeCase{DType::fp32, 13, 37, 3, 6},
                                           RopeCase{DType::fp32, 33, 480, 5, 80},
                                           RopeCase{DType::bf16, 17, 6 * 64, 4, 64}));

std::vector<RopeCase> random_ropes() {
  std::vector<RopeCase> cases;
  std::mt19937_64 random = random_shapes(4);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp32, DType::bf16}) {
    const int64_t heads = random_size(random, 5);
    const int64_t head_dim = 2 * random_size(random, 70);
    cases.push_back(
        {dtype, random_size(random, 30), heads * head_dim + random_size(random, 50), heads, head_dim});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Random, RopeTest, ::testing::ValuesIn(random_ropes()));

TEST(Dropout, KeepsTheDocumentedElements) {
  const Lane lane(Place::tested);
  Call call(lane);
  const DropoutSite site{.seed = 0xfeed'0000'beefULL, .site = 3, .probability = 0.25F};
  constexpr int64_t tokens = 700;
  constexpr int64_t channels = 101;
  GuardedBuffer& values = call.place("x", DType::fp32, {tokens, channels});
  values.write(std::vector<double>(tokens * channels, 3.0));
  GuardedBuffer& samples = call.place("samples", DType::i64, {1});
  samples.write({0x2'0000'0009});
  under_test::make_pointwise(*lane.device)
      ->dropout(*lane.stream, values.tensor(), samples.tensor(), call.copy_of(StepScalars{.step = 7}), site,
                values.tensor());
  lane.stream->synchronize();
  const std::vector<double> x = values.read();
  int64_t kept = 0;
  for (uint32_t e = 0; e < x.size(); ++e) {
    const auto words = math::philox({e / 4, 9, 7, 2U << 24 | 3U}, {0x0000'beefU, 0xfeedU ^ 2U});
    const bool keep = words[e % 4] >= 0x4000'0000U;
    ASSERT_EQ(x[e], keep ? 4.0F : 0.0F) << "element " << e;
    kept += keep ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(x.size()), 0.75, 0.01);
}

TEST(PointwiseArguments, NameWhatIsWrong) {
  const auto device = cpu::make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  std::vector<double> memory(64);
  const StepScalars scalars;
  const auto tensor = [&](DType dtype, Shape shape) { return Tensor(memory.data(), dtype, shape); };
  for (const auto& family : {reference::make_pointwise(*device), under_test::make_pointwise(*device)}) {
    try {
      family->gelu_forward(*stream, tensor(DType::fp32, {2, 4}), tensor(DType::bf16, {2, 4}));
      FAIL() << "an output of another type was accepted";
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), "gelu_forward: y is bf16 (2, 4); expected fp32 (2, 4)");
    }
    EXPECT_THROW(family->swiglu_forward(*stream, tensor(DType::fp32, {2, 7}), tensor(DType::fp32, {2, 4})),
                 UsageError);
    EXPECT_THROW(family->rope(*stream, tensor(DType::fp32, {2, 6}), tensor(DType::i32, {2}),
                              tensor(DType::fp32, {4, 1, 2}), 2, 3, false),
                 UsageError);
    EXPECT_THROW(
        family->dropout(*stream, tensor(DType::fp32, {2, 6}), tensor(DType::i64, {2}), &scalars,
                        DropoutSite{.seed = 1, .site = 1, .probability = 1.0F}, tensor(DType::fp32, {2, 6})),
        UsageError);
    EXPECT_THROW(family->dropout(*stream, tensor(DType::fp32, {3, 6}), tensor(DType::i64, {2}), &scalars,
                                 DropoutSite{}, tensor(DType::fp32, {3, 6})),
                 UsageError);
  }
  EXPECT_THROW(under_test::make_pointwise(*device)->gelu_forward(*stream, tensor(DType::fp64, {2}),
                                                                 tensor(DType::fp64, {2})),
               UsageError);
  EXPECT_FALSE(under_test::make_pointwise(*device)->supports(DType::i32));
  EXPECT_TRUE(under_test::make_pointwise(*device)->supports(DType::bf16));
  EXPECT_TRUE(under_test::make_pointwise(*device)->supports(DType::fp16));
}

}  // namespace
}  // namespace penstock::testing
