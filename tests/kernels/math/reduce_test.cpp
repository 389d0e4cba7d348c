#include "kernels/math/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/reference/reduce.h"
#include "tests/kernels/math/operation.h"
#include "tests/kernels/math/random_sizes.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::Reduce;

constexpr Implementations<Reduce> reduce{reference::make_reduce, under_test::make_reduce};
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Reduce, SquaresOfBlocks) {
  std::mt19937_64 random = random_shapes(9);
  for (const int64_t count :
       {int64_t{1}, int64_t{15}, int64_t{17}, int64_t{4095}, int64_t{4096}, int64_t{4097}, int64_t{100003},
        random_size(random, 50000), random_size(random, 50000)}) {
    Operation operation(fmt::format("squares of {} elements", count), DType::fp32);
    const int x = operation.input("x", DType::fp32, {count});
    const int blocks = operation.output("blocks", DType::fp64, {math::norm_blocks(count)});
    operation.check(
        reduce, [&](Reduce& family, Call& call) { family.squares(call.stream(), call[x], call[blocks]); });
  }
}

TEST(Reduce, SumIsExactInAscendingOrder) {
  // Only the ascending order gives 1: the large terms cancel before the small one is added.
  Operation operation("sum", DType::fp64);
  const int values = operation.given("values", DType::fp64, {3}, {1e300, -1e300, 1});
  const int floats = operation.given("floats", DType::fp32, {4}, {0x1p60, 1, -0x1p60, 0.5});
  const int out = operation.output("out", DType::fp64, {2});
  const auto run = [&](Reduce& family, Call& call) {
    family.sum(call.stream(), call[values], call[out].as<double>());
    family.sum(call.stream(), call[floats], call[out].as<double>() + 1);
  };
  operation.check(reduce, run);
  EXPECT_EQ(operation.reference_result(reduce, out, run), (std::vector<double>{1, 0.5}));
}

/// The scalars after global_norm, by both implementations: {norm, clip factor, apply}.
void check_global_norm(const std::vector<double>& squares, float clip, double norm, double factor,
                       int32_t apply, float loss_scale = 1) {
  for (const Place place : {Place::host, Place::tested}) {
    const Lane lane(place);
    Call call(lane);
    GuardedBuffer& sums = call.place("sums", DType::fp64, {static_cast<int64_t>(squares.size())});
    sums.write(squares);
    math::StepScalars scalars{.loss_scale = loss_scale, .clip_factor = 77, .apply = 77};
    GuardedBuffer& memory = call.place("scalars", DType::u8, {static_cast<int64_t>(sizeof(scalars))});
    memory.write_bytes(&scalars);
    const auto make = place == Place::host ? reduce.reference : reduce.tested;
    make(*lane.device)
        ->global_norm(*lane.stream, sums.tensor(), clip,
                      static_cast<math::StepScalars*>(memory.tensor().data));
    lane.stream->synchronize();
    std::memcpy(&scalars, memory.bytes().data(), sizeof(scalars));
    if (std::isnan(norm)) {
      EXPECT_TRUE(std::isnan(scalars.gradient_norm));
    } else {
      EXPECT_EQ(scalars.gradient_norm, norm);
    }
    if (apply != 0) {
      EXPECT_FLOAT_EQ(scalars.clip_factor, static_cast<float>(factor));
    }
    EXPECT_EQ(scalars.apply, apply);
  }
}

TEST(Reduce, GlobalNormClips) {
  check_global_norm({9, 16}, 1.0F, 5, 1 / (5 + 1e-6), 1);
  check_global_norm({9, 16}, 10.0F, 5, 1, 1);
  check_global_norm({9, 16}, 0.0F, 5, 1, 1);
  check_global_norm({0}, 1.0F, 0, 1, 1);
  check_global_norm({9, 16}, 1.0F, 5.0 / 4, 1 / (5.0 / 4 + 1e-6) / 4, 1, 4);
  check_global_norm({9, 16}, 2.0F, 5.0 / 4, 1.0 / 4, 1, 4);
  check_global_norm({9, 16}, 0.0F, 5.0 / 65536, 1.0 / 65536, 1, 65536);
  check_global_norm({9, infinity}, 1.0F, infinity, 0, 0);
  check_global_norm({9, std::nan("")}, 1.0F, std::nan(""), 0, 0);
}

TEST(Reduce, CountsNanAndInfinity) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    // Close to the largest bf16 and fp32, or fp16: finite.
    std::vector<double> values(70001, dtype == DType::fp16 ? 65504 : 3.38e38);
    for (const size_t i : {0, 5, 33000, 70000}) values[i] = std::nan("");
    values[40000] = infinity;
    values[40001] = -infinity;
    Operation operation(fmt::format("count_nonfinite {}", name_of(dtype)), dtype);
    const int x = operation.given("x", dtype, {static_cast<int64_t>(values.size())}, values);
    const int out = operation.updated("out", DType::i64, {1}, {10});
    const auto run = [&](Reduce& family, Call& call) {
      family.count_nonfinite(call.stream(), call[x], call[out].as<int64_t>());
    };
    operation.check(reduce, run);
    EXPECT_EQ(operation.reference_result(reduce, out, run), std::vector<double>{16});
  }
}

}  // namespace
}  // namespace penstock::testing
