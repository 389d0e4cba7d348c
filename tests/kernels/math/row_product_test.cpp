#include "kernels/cpu/row_product.h"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"

namespace penstock::testing {
namespace {

template <class T>
std::vector<T> numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values;
  for (size_t i = 0; i < count; ++i) values.push_back(T(normal(random)));
  return values;
}

// A text's bits must not depend on which others are generated with it.
template <class T>
void check_rows_alike(DType dtype) {
  constexpr int64_t rows = 21;
  constexpr int64_t depth = 171;
  constexpr int64_t columns = 77;
  const std::vector<T> x = numbers<T>(rows * depth, 1);
  const std::vector<T> w = numbers<T>(columns * depth, 2);
  const std::vector<float> bias = numbers<float>(columns, 3);
  const auto product = [&](int64_t first, int64_t count) {
    const cpu::RowProduct made(count, columns, depth, dtype, DType::fp32);
    std::vector<char> workspace(made.workspace_bytes());
    std::vector<float> y(static_cast<size_t>(count * columns));
    made.run(count, x.data() + first * depth, w.data(), bias.data(), y.data(), workspace.data());
    return y;
  };
  const std::vector<float> all = product(0, rows);
  for (const int64_t count : {1, 2, 3, 4, 5, 8, 16}) {
    for (int64_t first = 0; first + count <= rows; ++first) {
      const std::vector<float> some = product(first, count);
      ASSERT_EQ(std::memcmp(some.data(), all.data() + first * columns, some.size() * sizeof(float)), 0)
          << count << " rows from row " << first;
    }
  }
}

TEST(RowProduct, BitsOfARowDoNotDependOnTheOthers) {
  check_rows_alike<float>(DType::fp32);
  check_rows_alike<bfloat16>(DType::bf16);
  check_rows_alike<float16>(DType::fp16);
}

}  // namespace
}  // namespace penstock::testing
