#include "kernels/math/gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/device/error.h"
#include "kernels/reference/gemm.h"
#include "tests/kernels/math/operation.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::Gemm;
using math::LinearShape;

constexpr Implementations<Gemm> gemm{reference::make_gemm, under_test::make_gemm};

std::vector<DType> product_dtypes() {
  return under_test::multiplies_bf16() ? std::vector{DType::fp32, DType::fp16, DType::bf16}
                                       : std::vector{DType::fp32, DType::fp16};
}

std::string name_of_case(const char* operation, const LinearShape& shape) {
  return fmt::format("{} {} tokens {} in {} out {}", operation, name_of(shape.dtype), shape.tokens, shape.in,
                     shape.out);
}

void check_forward(const LinearShape& shape, bool few_rows = false) {
  Operation operation(name_of_case(few_rows ? "few rows" : "forward", shape), shape.dtype);
  operation.place_at_multiples_of(under_test::product_shift);
  const int x = operation.input("x", shape.dtype, {shape.tokens, shape.in});
  const int w = operation.input("w", shape.dtype, {shape.out, shape.in});
  const int bias = operation.input("bias", DType::fp32, {shape.out});
  const int y = operation.output("y", shape.dtype, {shape.tokens, shape.out});
  operation.check(gemm, [&](Gemm& family, Call& call) {
    const auto plan = few_rows ? family.plan_few_rows(shape) : family.plan_linear(shape);
    plan->forward(call.stream(), call[x], call[w], shape.bias ? call[bias] : Tensor(), call[y],
                  call.workspace(plan->workspace_bytes()));
    call.stream().synchronize();
  });
}

void check_backward_input(const LinearShape& shape) {
  Operation operation(name_of_case("backward_input", shape), shape.dtype);
  operation.place_at_multiples_of(under_test::product_shift);
  const int dy = operation.input("dy", shape.dtype, {shape.tokens, shape.out});
  const int w = operation.input("w", shape.dtype, {shape.out, shape.in});
  const int dx = operation.output("dx", shape.dtype, {shape.tokens, shape.in});
  operation.check(gemm, [&](Gemm& family, Call& call) {
    const auto plan = family.plan_linear(shape);
    plan->backward_input(call.stream(), call[dy], call[w], call[dx], call.workspace(plan->workspace_bytes()));
    call.stream().synchronize();
  });
}

void check_backward_weight(const LinearShape& shape) {
  Operation operation(name_of_case("backward_weight", shape), shape.dtype);
  operation.place_at_multiples_of(under_test::product_shift);
  const int dy = operation.input("dy", shape.dtype, {shape.tokens, shape.out});
  const int x = operation.input("x", shape.dtype, {shape.tokens, shape.in});
  const int dw = operation.accumulated("dw", DType::fp32, {shape.out, shape.in});
  const int first = operation.output("dw of the first", DType::fp32, {shape.out, shape.in});
  const int dbias = operation.accumulated("dbias", DType::fp32, {shape.out});
  operation.check(gemm, [&](Gemm& family, Call& call) {
    const auto plan = family.plan_linear(shape);
    plan->backward_weight(call.stream(), call[dy], call[x], call[dw],
                          call.workspace(plan->workspace_bytes()));
    plan->first_backward_weight(call.stream(), call[dy], call[x], call[first],
                                call.workspace(plan->workspace_bytes()));
    plan->backward_bias(call.stream(), call[dy], call[dbias]);
    call.stream().synchronize();
  });
}

void check_all(LinearShape shape) {
  for (const DType dtype : product_dtypes()) {
    shape.dtype = dtype;
    check_forward(shape);
    check_backward_input(shape);
    check_backward_weight(shape);
  }
}

TEST(Gemm, ShapesOfOneAndOddSizes) {
  for (const int64_t tokens : {1, 3, 17}) {
    for (const int64_t in : {1, 5, 64}) {
      for (const int64_t out : {1, 7, 33}) {
        check_all({.tokens = tokens, .in = in, .out = out, .bias = (tokens + in + out) % 2 == 1});
      }
    }
  }
}

TEST(Gemm, ShapesOfSmallModels) {
  check_all({.tokens = 64, .in = 96, .out = 288, .bias = true});
  check_all({.tokens = 130, .in = 128, .out = 65, .bias = true});
  check_all({.tokens = 200, .in = 257, .out = 100});
}

// One row and several, whole and odd tiles of rows and columns, depths of whole steps and with a rest.
TEST(Gemm, FewRows) {
  for (const DType dtype : product_dtypes()) {
    for (const int64_t rows : {1, 2, 4, 5, 16, 19}) {
      check_forward({.tokens = rows, .in = 96, .out = 130, .dtype = dtype, .bias = rows % 2 == 1}, true);
      check_forward({.tokens = rows, .in = 45 + rows, .out = 7, .dtype = dtype, .bias = rows % 2 == 0}, true);
    }
    check_forward({.tokens = 3, .in = 3072, .out = 70, .dtype = dtype}, true);
    check_forward({.tokens = 1, .in = 1, .out = 1, .dtype = dtype, .bias = true}, true);
  }
}

// Where oneDNN would split a long sum among threads: narrow products whose depth passes 1024.
TEST(Gemm, LongSumsKeepTheirBitsForAnyNumberOfThreads) {
  check_all({.tokens = 4096, .in = 16, .out = 16, .bias = true});
  check_all({.tokens = 2048, .in = 64, .out = 3});
  check_all({.tokens = 2049, .in = 1, .out = 64});
  check_all({.tokens = 1025, .in = 65, .out = 2, .bias = true});
  check_all({.tokens = 2, .in = 4096, .out = 16});
  check_all({.tokens = 16, .in = 16, .out = 4096});
  check_all({.tokens = 1, .in = 2050, .out = 64, .bias = true});
  check_all({.tokens = 64, .in = 64, .out = 2048});
}

// Sums over more than 16384 elements run in pieces, which are added in fp32 whatever the result is: two and
// three pieces, one that remains, as many as there is room for.
TEST(Gemm, SumsOfSeveralPieces) {
  check_all({.tokens = 5, .in = 16385, .out = 7, .bias = true});
  check_all({.tokens = 3, .in = 6, .out = 33000});
  check_all({.tokens = 40, .in = 32768, .out = 16, .bias = true});
}

// Two extents of a few to a few hundred, the third up to some thousands, in all three roles.
TEST(Gemm, RandomShapes) {
  std::mt19937_64 numbers(test_seed());
  const auto extent = [&](double largest) {
    return static_cast<int64_t>(std::pow(largest, std::uniform_real_distribution<double>(0, 1)(numbers)));
  };
  for (int i = 0; i < 15; ++i) {
    std::array<int64_t, 3> extents = {extent(40), extent(200), extent(6000)};
    if (extents[0] * extents[1] * extents[2] > 2000000) continue;
    std::shuffle(extents.begin(), extents.end(), numbers);
    check_all({.tokens = extents[0], .in = extents[1], .out = extents[2], .bias = i % 2 == 0});
  }
}

TEST(Gemm, RefusesWhatItDoesNotOffer) {
  const auto device = cpu::make_cpu_device({});
  const auto family = under_test::make_gemm(*device);
  EXPECT_TRUE(family->supports({.tokens = 1, .in = 1, .out = 1}));
  EXPECT_EQ(static_cast<bool>(family->supports({.tokens = 1, .in = 1, .out = 1, .dtype = DType::bf16})),
            under_test::multiplies_bf16());
  const LinearShape integers{.tokens = 1, .in = 1, .out = 1, .dtype = DType::i32};
  EXPECT_NE(family->supports(integers).reason.find("not i32"), std::string::npos);
  EXPECT_THROW(family->plan_linear(integers), DeviceError);
  EXPECT_THROW(family->plan_linear({.tokens = 0, .in = 1, .out = 1}), DeviceError);
}

TEST(Gemm, WrongArgumentsAreNamedAtEnqueue) {
  const auto device = cpu::make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const auto plan = under_test::make_gemm(*device)->plan_linear({.tokens = 2, .in = 3, .out = 4});
  std::vector<float> memory(1024);
  const auto tensor = [&](Shape shape, DType dtype = DType::fp32) {
    return Tensor(memory.data(), dtype, shape);
  };
  const Tensor workspace(memory.data(), DType::u8, {4096});
  const auto message = [&](Tensor x, Tensor w, Tensor bias, Tensor y) -> std::string {
    try {
      plan->forward(*stream, x, w, bias, y, workspace);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message(tensor({3, 2}), tensor({4, 3}), {}, tensor({2, 4})),
            "linear forward: x is fp32 (3, 2); expected fp32 (2, 3)");
  EXPECT_EQ(message(tensor({2, 3}), tensor({4, 3}, DType::bf16), {}, tensor({2, 4})),
            "linear forward: w is bf16 (4, 3); expected fp32 (4, 3)");
  EXPECT_EQ(message(tensor({2, 3}), tensor({4, 3}), {}, {}),
            "linear forward: y is absent; expected fp32 (2, 4)");
  EXPECT_EQ(message(tensor({2, 3}), tensor({4, 3}), tensor({4}), tensor({2, 4})),
            "linear forward: bias must be given exactly when the plan has one");
}

}  // namespace
}  // namespace penstock::testing
