#include <cmath>

#include "kernels/cuda/cross_entropy_kernels.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduction.cuh"

namespace penstock::cuda {
namespace {

constexpr int threads = 512;

/// The largest of some logits, and Σ exp(logit − largest). Nothing yet: (−∞, 0).
struct Softmax {
  float largest;
  float sum;
};

__device__ Softmax shuffle_xor(const Softmax& own, int distance) {
  return {__shfl_xor_sync(whole_warp, own.largest, distance), __shfl_xor_sync(whole_warp, own.sum, distance)};
}

__device__ float finite_base(float largest) {
  return largest == -INFINITY ? 0.0F : largest;  // nothing seen yet: e^−∞ = 0, not NaN
}

struct Merge {
  __device__ Softmax operator()(const Softmax& a, const Softmax& b) const {
    const float largest = fmaxf(a.largest, b.largest);
    const float base = finite_base(largest);
    return {largest, a.sum * expf(a.largest - base) + b.sum * expf(b.largest - base)};
  }
};

/// One pass over a row by the whole block; a thread's packs are number threadIdx.x, + threads, …
__device__ Softmax softmax_of_row(const float* logits, int64_t vocab, bool whole) {
  constexpr int width = 4;
  Softmax state{-INFINITY, 0.0F};
  for (int64_t first = static_cast<int64_t>(threadIdx.x) * width; first < vocab; first += threads * width) {
    const Floats<width> x = load<width>(logits, first, vocab, whole);
    float largest = state.largest;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if (first + i < vocab) largest = fmaxf(largest, x[i]);
    }
    const float base = finite_base(largest);
    float sum = state.sum * expf(state.largest - base);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if (first + i < vocab) sum += expf(x[i] - base);
    }
    state = {largest, sum};
  }
  return reduce<threads>(state, Merge{});
}

__global__ void __launch_bounds__(threads) loss_kernel(CrossEntropy call, bool whole) {
  const int64_t token = blockIdx.x;
  const int32_t target = call.targets[token];
  if (target < 0) {
    if (threadIdx.x == 0) call.losses[token] = 0.0F;
    return;
  }
  const float* const logits = call.logits + token * call.rows;
  const Softmax found = softmax_of_row(logits, call.vocab, whole);
  if (threadIdx.x == 0) call.losses[token] = logf(found.sum) - (logits[target] - found.largest);
}

template <class T>
__global__ void __launch_bounds__(threads)
    loss_and_gradient_kernel(CrossEntropy call, T* all_gradients, const math::StepScalars* scalars,
                             bool whole) {
  constexpr int width = pack_width<T>;
  const int64_t token = blockIdx.x;
  const int32_t target = call.targets[token];
  const float* const logits = call.logits + token * call.rows;
  T* const gradient = all_gradients + token * call.rows;
  if (target < 0) {
    for (int64_t first = static_cast<int64_t>(threadIdx.x) * width; first < call.rows;
         first += threads * width) {
      store<width>(gradient, first, call.rows, whole, Floats<width>{});
    }
    if (threadIdx.x == 0) call.losses[token] = 0.0F;
    return;
  }
  const float chosen = logits[target];  // before anybody overwrites it: the reduction has a barrier
  const Softmax found = softmax_of_row(logits, call.vocab, whole);
  const float reciprocal = 1.0F / found.sum;
  const float scale = scalars->gradient_scale;
  for (int64_t first = static_cast<int64_t>(threadIdx.x) * width; first < call.rows;
       first += threads * width) {
    Floats<width> x = load<width>(logits, first, call.rows, whole);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const float probability = expf(x[i] - found.largest) * reciprocal;
      const float gradient_here = first + i == target ? probability - 1.0F : probability;
      x[i] = first + i < call.vocab ? gradient_here * scale : 0.0F;
    }
    store<width>(gradient, first, call.rows, whole, x);
  }
  if (threadIdx.x == 0) call.losses[token] = logf(found.sum) - (chosen - found.largest);
}

}  // namespace

void cross_entropy_loss(StreamHandle stream, const CrossEntropy& call) {
  launch("cross_entropy_loss", loss_kernel, {.blocks_x = call.tokens, .threads = threads}, stream, call,
         aligned(call.logits) && call.rows % 4 == 0);
}

template <class T>
void cross_entropy_loss_and_gradient(StreamHandle stream, const CrossEntropy& call, T* gradient,
                                     const math::StepScalars* scalars) {
  launch("cross_entropy_loss_and_gradient", loss_and_gradient_kernel<T>,
         {.blocks_x = call.tokens, .threads = threads}, stream, call, gradient, scalars,
         aligned(call.logits) && aligned(gradient) && call.rows % pack_width<T> == 0);
}

template void cross_entropy_loss_and_gradient(StreamHandle, const CrossEntropy&, float*,
                                              const math::StepScalars*);
template void cross_entropy_loss_and_gradient(StreamHandle, const CrossEntropy&, bfloat16*,
                                              const math::StepScalars*);
template void cross_entropy_loss_and_gradient(StreamHandle, const CrossEntropy&, float16*,
                                              const math::StepScalars*);

}  // namespace penstock::cuda
