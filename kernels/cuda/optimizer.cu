#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/math/philox.h"

namespace penstock::cuda {
namespace {

constexpr int threads = 256;
constexpr int width = 4;
constexpr int64_t block_elements = 4 * threads * width;
constexpr int launch_tensors = 32;

/// What one launch updates; a kernel argument, so at most 4 KiB.
struct Batch {
  AdamWTensor tensors[launch_tensors];
  int64_t first_block[launch_tensors + 1];  ///< the last: of the whole launch
  int count;
};
static_assert(sizeof(Batch) <= 3072);

/// Four bf16 of values at elements first … of a parameter, rounded up or down at random.
__device__ Chunk<bfloat16, width> round_at_random(const Floats<width>& values, int64_t first,
                                                  uint32_t identity, const AdamWStep& step) {
  const auto counter = static_cast<uint64_t>(first / 4);
  const auto purpose = static_cast<uint32_t>(math::RandomPurpose::stochastic_rounding);
  const auto words = math::philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                                   static_cast<uint32_t>(step.scalars->step), purpose << 24 | identity},
                                  {static_cast<uint32_t>(step.seed), static_cast<uint32_t>(step.seed >> 32)});
  Chunk<bfloat16, width> result;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const unsigned bits = __float_as_uint(values[i]);
    const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
    const unsigned raised = bits + (words[static_cast<size_t>(i)] & 0xffffU);
    result.values[i] = finite ? bfloat16() : from_float<bfloat16>(values[i]);
    if (finite) result.values[i].bits = static_cast<uint16_t>(raised >> 16);
  }
  return result;
}

template <class Copy>
__global__ void __launch_bounds__(threads) adamw_kernel(Batch batch, AdamWStep step) {
  const math::StepScalars& scalars = *step.scalars;
  if (scalars.apply == 0) return;
  int number = 0;
  while (static_cast<int64_t>(blockIdx.x) >= batch.first_block[number + 1]) ++number;
  const AdamWTensor& tensor = batch.tensors[number];
  const int64_t n = tensor.elements;
  const bool whole = aligned(tensor.parameter, tensor.gradient, tensor.moment1, tensor.moment2);
  Copy* const copy = static_cast<Copy*>(tensor.copy);
  const bool whole_copy = aligned(copy);
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - batch.first_block[number]) * block_elements;
  const float rest1 = 1.0F - step.beta1;
  const float rest2 = 1.0F - step.beta2;
  for (int64_t first = begin + static_cast<int64_t>(threadIdx.x) * width;
       first < min(n, begin + block_elements); first += threads * width) {
    Floats<width> p = load<width>(tensor.parameter, first, n, whole);
    const Floats<width> gradient = load<width>(tensor.gradient, first, n, whole);
    Floats<width> m = load<width>(tensor.moment1, first, n, whole);
    Floats<width> v = load<width>(tensor.moment2, first, n, whole);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const float g = gradient[i] * scalars.clip_factor;
      m[i] = step.beta1 * m[i] + rest1 * g;
      v[i] = step.beta2 * v[i] + rest2 * (g * g);
      const float direction =
          (m[i] / scalars.bias_correction1) / (sqrtf(v[i] / scalars.bias_correction2) + step.epsilon);
      p[i] = p[i] - scalars.learning_rate * (direction + tensor.weight_decay * p[i]);
    }
    store<width>(tensor.parameter, first, n, whole, p);
    store<width>(tensor.moment1, first, n, whole, m);
    store<width>(tensor.moment2, first, n, whole, v);
    if (copy == nullptr) continue;
    if constexpr (std::is_same_v<Copy, bfloat16>) {
      if (step.stochastic_rounding) {
        store_chunk(copy, first, n, whole_copy, round_at_random(p, first, tensor.identity, step));
        continue;
      }
    }
    store<width>(copy, first, n, whole_copy, p);
  }
}

}  // namespace

void adamw(StreamHandle stream, std::span<const AdamWTensor> tensors, const AdamWStep& step) {
  for (size_t begin = 0; begin < tensors.size(); begin += launch_tensors) {
    Batch batch{};
    batch.count = static_cast<int>(std::min<size_t>(launch_tensors, tensors.size() - begin));
    for (int i = 0; i < batch.count; ++i) {
      batch.tensors[i] = tensors[begin + static_cast<size_t>(i)];
      batch.first_block[i + 1] =
          batch.first_block[i] + ceil_divide(batch.tensors[i].elements, block_elements);
    }
    const auto kernel = step.copy_type == DType::fp16 ? adamw_kernel<float16> : adamw_kernel<bfloat16>;
    launch("adamw", kernel, {.blocks_x = batch.first_block[batch.count], .threads = threads}, stream, batch,
           step);
  }
}

}  // namespace penstock::cuda
