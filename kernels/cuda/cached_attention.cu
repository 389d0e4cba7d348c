#include <cmath>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/cached_attention_kernels.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduction.cuh"

namespace penstock::cuda {
namespace {

constexpr int threads = 128;
constexpr int warps = threads / warp_threads;
/// Channels of a lane: lane, lane + 32, ….
constexpr int lane_channels = static_cast<int>(most_head_dim) / warp_threads;

/// Where position 0 of a slot's key head begins in the cache.
__device__ inline int64_t cached(const math::CachedAttentionShape& shape, int64_t slot, int64_t group) {
  return (slot * shape.kv_heads + group) * shape.positions * shape.head_dim;
}

/// A block a row and key head: its key and value, to their place.
template <class T>
__global__ void __launch_bounds__(threads) keep_kernel(CachedAttentionCall<T> call) {
  const int64_t row = blockIdx.x;
  const int64_t group = blockIdx.y;
  const math::CachedAttentionShape& shape = call.shape;
  if (call.slots[row] < 0) return;
  const int64_t d = shape.head_dim;
  const int64_t row_elements = (shape.heads + 2 * shape.kv_heads) * d;
  const int64_t key = row * row_elements + (shape.heads + group) * d;
  const int64_t to = cached(shape, call.slots[row], group) + call.positions[row] * d;
  for (int64_t c = threadIdx.x; c < d; c += threads) {
    call.keys[to + c] = call.qkv[key + c];
    call.values[to + c] = call.qkv[key + shape.kv_heads * d + c];
  }
}

/// A block a row and query head. Each warp passes every fourth key with the online softmax (Milakov and
/// Gimelshein, 2018); then the warps' results are joined in their order.
template <class T>
__global__ void __launch_bounds__(threads) attend_kernel(CachedAttentionCall<T> call, float scale) {
  SHARED_ARRAY(float, warp_largest, warps);
  SHARED_ARRAY(float, warp_sum, warps);
  SHARED_ARRAY(float, warp_output, warps* static_cast<int>(most_head_dim));
  const int64_t row = blockIdx.x;
  const int64_t head = blockIdx.y;
  const math::CachedAttentionShape& shape = call.shape;
  const int d = static_cast<int>(shape.head_dim);
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  T* const out = call.out + (row * shape.heads + head) * d;
  if (call.slots[row] < 0) {
    for (int c = static_cast<int>(threadIdx.x); c < d; c += threads) out[c] = from_float<T>(0.0F);
    return;
  }
  const int64_t first = cached(shape, call.slots[row], head / (shape.heads / shape.kv_heads));
  const T* const from = call.qkv + row * (shape.heads + 2 * shape.kv_heads) * d + head * d;
  float query[lane_channels];
  float output[lane_channels];
#pragma unroll
  for (int i = 0; i < lane_channels; ++i) {
    const int c = lane + i * warp_threads;
    query[i] = c < d ? to_float(from[c]) * scale : 0.0F;
    output[i] = 0;
  }
  float largest = -INFINITY;
  float sum = 0;
  for (int64_t k = warp; k <= call.positions[row]; k += warps) {
    const T* const key = call.keys + first + k * d;
    const T* const value = call.values + first + k * d;
    float score = 0;
#pragma unroll
    for (int i = 0; i < lane_channels; ++i) {
      const int c = lane + i * warp_threads;
      if (c < d) score += query[i] * to_float(key[c]);
    }
    score = warp_reduce(score, Add{});
    const float before = largest;
    largest = fmaxf(before, score);
    const float factor = expf(before - largest);
    const float weight = expf(score - largest);
    sum = sum * factor + weight;
#pragma unroll
    for (int i = 0; i < lane_channels; ++i) {
      const int c = lane + i * warp_threads;
      if (c < d) output[i] = output[i] * factor + weight * to_float(value[c]);
    }
  }
  if (lane == 0) {
    warp_largest[warp] = largest;
    warp_sum[warp] = sum;
  }
#pragma unroll
  for (int i = 0; i < lane_channels; ++i)
    warp_output[warp * static_cast<int>(most_head_dim) + lane + i * warp_threads] = output[i];
  __syncthreads();
  float base = warp_largest[0];
  for (int w = 1; w < warps; ++w) base = fmaxf(base, static_cast<float>(warp_largest[w]));
  float all = 0;
  float factors[warps];
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    factors[w] = expf(warp_largest[w] - base);  // a warp without a key: e^−∞ = 0
    all += warp_sum[w] * factors[w];
  }
  for (int c = static_cast<int>(threadIdx.x); c < d; c += threads) {
    float value = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w)
      value += warp_output[w * static_cast<int>(most_head_dim) + c] * factors[w];
    out[c] = from_float<T>(value / all);
  }
}

}  // namespace

template <class T>
void cached_attention(StreamHandle stream, const CachedAttentionCall<T>& call) {
  const math::CachedAttentionShape& shape = call.shape;
  launch("cached_attention_keep", keep_kernel<T>,
         {.blocks_x = shape.rows, .blocks_y = shape.kv_heads, .threads = threads}, stream, call);
  launch("cached_attention", attend_kernel<T>,
         {.blocks_x = shape.rows, .blocks_y = shape.heads, .threads = threads}, stream, call,
         1.0F / std::sqrt(static_cast<float>(shape.head_dim)));
}

template void cached_attention(StreamHandle, const CachedAttentionCall<float>&);
template void cached_attention(StreamHandle, const CachedAttentionCall<bfloat16>&);
template void cached_attention(StreamHandle, const CachedAttentionCall<float16>&);

}  // namespace penstock::cuda
