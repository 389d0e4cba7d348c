// The bias kernels, which belong to matmuls.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/pointwise_kernels.h"
#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"
#include "tests/kernels/cuda/kernel_memory.h"
#include "tests/kernels/math/random_sizes.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

template <class T>
void check(DType dtype, int64_t rows, int64_t columns, int64_t shift) {
  SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << rows << " x " << columns << " + " << shift);
  std::mt19937_64 random = random_shapes(15);
  std::normal_distribution<float> normal;
  KernelVector<T> memory(static_cast<size_t>(rows * columns + shift));
  for (T& value : memory) value = T(normal(random));
  T* const y = memory.data() + shift;
  KernelVector<float> bias(static_cast<size_t>(columns));
  for (float& value : bias) value = normal(random);

  std::vector<double> expected(bias.begin(), bias.end());
  for (int64_t i = 0; i < rows * columns; ++i) {
    expected[static_cast<size_t>(i % columns)] += static_cast<double>(static_cast<float>(y[i]));
  }
  std::vector<KernelVector<float>> found;
  for (int variant = 0; variant < under_test::variants; ++variant) {
    under_test::choose_variant(variant);
    found.push_back(bias);
    cuda::backward_bias(nullptr, y, found.back().data(), rows, columns);
    kernel_memory::finish();
    EXPECT_EQ(found.front(), found.back());
  }
  double difference = 0;
  double norm = 0;
  for (size_t c = 0; c < expected.size(); ++c) {
    difference += std::pow(found[0][c] - expected[c], 2);
    norm += expected[c] * expected[c];
  }
  EXPECT_LE(std::sqrt(difference), tolerance(DType::fp32) * std::sqrt(norm));

  const KernelVector<T> before = memory;
  cuda::add_bias(nullptr, bias.data(), y, rows, columns);
  kernel_memory::finish();
  for (int64_t i = 0; i < rows * columns; ++i) {
    const auto at = static_cast<size_t>(i + shift);
    const float sum = static_cast<float>(before[at]) + bias[static_cast<size_t>(i % columns)];
    ASSERT_EQ(static_cast<float>(memory[at]), stored<T>(sum)) << "element " << i;
  }
}

TEST(Bias, IsAddedExactlyAndItsGradientSummedInOneOrder) {
  std::mt19937_64 random = random_shapes(16);
  for (const int64_t shift : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      check<float>(DType::fp32, random_size(random, 700), random_size(random, 90), shift);
      check<bfloat16>(DType::bf16, random_size(random, 700), random_size(random, 90), shift);
    }
    check<float>(DType::fp32, 513, 64, shift);
    check<bfloat16>(DType::bf16, 256, 48, shift);
    check<float16>(DType::fp16, 256, 48, shift);
  }
}

}  // namespace
}  // namespace penstock::testing
