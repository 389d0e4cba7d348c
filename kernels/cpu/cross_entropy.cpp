#include "kernels/cpu/cross_entropy.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/element.h"
#include "kernels/cpu/vector_math.h"

namespace penstock::cpu {
namespace {

constexpr int64_t lanes = 16;
/// Elements whose exponentials are added in fp32 before the sum goes on in double.
constexpr int64_t sum_block = 1024;

/// x = exp(x − shift); the sum of the results.
double exponentials(float* x, int64_t count, float shift) {
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += sum_block) {
    float* block = x + begin;
    const int64_t size = std::min(sum_block, count - begin);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) block[i] = vector_exp(block[i] - shift);
    std::array<float, lanes> lane{};
    int64_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      for (int64_t j = 0; j < lanes; ++j) lane[j] += block[i + j];
    }
    for (int64_t j = 0; i + j < size; ++j) lane[j] += block[i + j];
    for (const float value : lane) total += static_cast<double>(value);
  }
  return total;
}

struct Row {
  float loss;
  float reciprocal;  ///< of the sum of the exponentials
};

/// Leaves exp(logits − max) in the row.
Row exponentiate(float* logits, int64_t vocab, int32_t target) {
  const float shift = largest(logits, vocab);
  const float chosen = logits[target] - shift;
  const double sum = exponentials(logits, vocab, shift);
  return {static_cast<float>(std::log(sum) - static_cast<double>(chosen)), static_cast<float>(1.0 / sum)};
}

template <class T>
float row_with_gradient(float* logits, int64_t rows, int64_t vocab, int32_t target, float scale,
                        T* gradient) {
  if (target < 0) {
    std::fill(gradient, gradient + rows, T(0.0F));
    return 0;
  }
  const Row row = exponentiate(logits, vocab, target);
  const float chosen = logits[target] * row.reciprocal - 1.0F;
#pragma omp simd
  for (int64_t v = 0; v < vocab; ++v) store(gradient[v], logits[v] * row.reciprocal * scale);
  gradient[target] = static_cast<T>(chosen * scale);
  std::fill(gradient + vocab, gradient + rows, T(0.0F));
  return row.loss;
}

}  // namespace

float cross_entropy_row(float* logits, int64_t /*rows*/, int64_t vocab, int32_t target) {
  return target < 0 ? 0.0F : exponentiate(logits, vocab, target).loss;
}

float cross_entropy_row(float* logits, int64_t rows, int64_t vocab, int32_t target, float scale,
                        float* gradient) {
  return row_with_gradient(logits, rows, vocab, target, scale, gradient);
}

float cross_entropy_row(float* logits, int64_t rows, int64_t vocab, int32_t target, float scale,
                        bfloat16* gradient) {
  return row_with_gradient(logits, rows, vocab, target, scale, gradient);
}

float cross_entropy_row(float* logits, int64_t rows, int64_t vocab, int32_t target, float scale,
                        float16* gradient) {
  return row_with_gradient(logits, rows, vocab, target, scale, gradient);
}

}  // namespace penstock::cpu
