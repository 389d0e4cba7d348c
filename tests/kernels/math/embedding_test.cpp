#include "kernels/math/embedding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/reference/embedding.h"
#include "tests/kernels/math/operation.h"
#include "tests/kernels/math/random_sizes.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using math::Embedding;

constexpr Implementations<Embedding> embedding{reference::make_embedding, under_test::make_embedding};

struct Case {
  int64_t tokens;
  int64_t channels;
  int64_t vocab;
  int64_t positions;  // 0: no position table
};

void check_embedding(const Case& shape, DType dtype) {
  const auto [N, C, V, T] = shape;
  Operation operation(
      fmt::format("embedding {} {} tokens {} channels {} rows {} positions", name_of(dtype), N, C, V, T),
      dtype);
  const int tokens = operation.indices("tokens", DType::i32, {N}, 0, V - 1);
  const int positions = operation.indices("positions", DType::i32, {N}, 0, std::max<int64_t>(T, 1) - 1);
  const int token_table = operation.input("token_table", dtype, {V, C});
  const int position_table = operation.input("position_table", dtype, {std::max<int64_t>(T, 1), C});
  const int y = operation.output("y", dtype, {N, C});
  operation.exactly(y);  // a look-up, or the rounded sum of two
  const int dy = operation.input("dy", dtype, {N, C});
  const int dtoken_table = operation.accumulated("dtoken_table", DType::fp32, {V, C});
  const int dposition_table =
      operation.accumulated("dposition_table", DType::fp32, {std::max<int64_t>(T, 1), C});
  operation.check(embedding, [&, with_positions = T > 0](Embedding& family, Call& call) {
    const auto if_used = [&](int argument) { return with_positions ? call[argument] : Tensor(); };
    family.forward(call.stream(), call[tokens], if_used(positions), call[token_table],
                   if_used(position_table), call[y]);
    family.backward(call.stream(), call[dy], call[tokens], if_used(positions), call[dtoken_table],
                    if_used(dposition_table));
  });
}

TEST(Embedding, AgreesWithTheReference) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    check_embedding({1, 1, 1, 1}, dtype);
    check_embedding({7, 3, 5, 0}, dtype);
    check_embedding({33, 65, 9, 11}, dtype);  // every row repeats
    check_embedding({300, 193, 50, 64}, dtype);
    check_embedding({64, 96, 1000, 0}, dtype);
  }
}

TEST(Embedding, AgreesWithTheReferenceOnRandomShapes) {
  std::mt19937_64 random = random_shapes(6);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp32, DType::bf16}) {
    check_embedding({random_size(random, 300), random_size(random, 200), random_size(random, 60),
                     random_size(random, 60) - 1},
                    dtype);
  }
}

}  // namespace
}  // namespace penstock::testing
