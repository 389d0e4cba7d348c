#include <cmath>
#include <type_traits>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/reduction.cuh"

namespace penstock::cuda {
namespace {

template <int max_dim>
constexpr size_t forward_shared_bytes = (2 * AttentionTiles<max_dim>::floats + tile_scores) * sizeof(float);

/// combine over the 16 lanes that hold a row.
template <class Combine>
__device__ float over_row(float value, const Combine& combine) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) value = combine(value, shuffle_xor(value, distance));
  return value;
}

/// A block a tile of 64 queries of a head: one pass over the keys they see, with the online softmax (Milakov
/// and Gimelshein, 2018).
template <class T, int max_dim>
__global__ void __launch_bounds__(attention_threads)
    attention_forward_kernel(AttentionForward<T> call, float scale, bool whole) {
  const AttentionThread me;
  const AttentionPlaces places(call.shape);
  const Shared<float> query = dynamic_shared<float>();
  const Shared<float> key_value = query + AttentionTiles<max_dim>::floats;
  const Shared<float> scores = key_value + AttentionTiles<max_dim>::floats;
  const int64_t tile = gridDim.x - 1 - blockIdx.x;  // the last see most keys: they come first
  const int64_t batch = blockIdx.y / places.heads;
  const int64_t head = blockIdx.y % places.heads;
  const int64_t group = head / (places.heads / places.kv_heads);
  const int64_t first_query = tile * attention_tile;
  const int64_t queries = min(static_cast<int64_t>(attention_tile), places.tokens - first_query);

  int64_t first_key[4];
  float largest[4];
  float sum[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t token = min(first_query + 4 * me.ty + i, places.tokens - 1);
    first_key[i] = first_visible(call.starts, places, batch, token);
    largest[i] = -INFINITY;
    sum[i] = 0;
  }
  Channels<max_dim> output;
  load_tile<max_dim>(call.qkv + places.query(batch, first_query, head), places.row(), queries,
                     places.head_dim, scale, whole, query);
  const int64_t first_tile = first_visible(call.starts, places, batch, first_query) / attention_tile;
  for (int64_t key_tile = first_tile; key_tile <= tile; ++key_tile) {
    const int64_t first = key_tile * attention_tile;
    const int64_t keys = min(static_cast<int64_t>(attention_tile), places.tokens - first);
    __syncthreads();  // the tile before has been used
    load_tile<max_dim>(call.qkv + places.key(batch, first, group), places.row(), keys, places.head_dim, 1.0F,
                       whole, key_value);
    __syncthreads();
    Scores score = multiply_rows<max_dim>(query, key_value, product_depth(places.head_dim));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t token = first_query + 4 * me.ty + i;
      float here = -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t key = first + me.tx + 16 * j;
        if (key > token || key < first_key[i]) score.at[i][j] = -INFINITY;
        here = fmaxf(here, score.at[i][j]);
      }
      const float before = largest[i];
      largest[i] = fmaxf(before, over_row(here, Larger{}));
      const float base = largest[i] == -INFINITY ? 0.0F : largest[i];  // nothing seen yet: e^−∞ = 0, not NaN
      const float factor = expf(before - base);
      float added = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float exponential = expf(score.at[i][j] - base);
        added += exponential;
        scores[(4 * me.ty + i) * score_stride + me.tx + 16 * j] = exponential;
      }
      sum[i] = sum[i] * factor + over_row(added, Add{});
#pragma unroll
      for (int j = 0; j < AttentionTiles<max_dim>::groups; ++j) {
        float4& four = output.at[i][j];
        four = make_float4(four.x * factor, four.y * factor, four.z * factor, four.w * factor);
      }
    }
    __syncthreads();  // keys have been used, scores are written
    load_tile<max_dim>(call.qkv + places.value(batch, first, group), places.row(), keys, places.head_dim,
                       1.0F, whole, key_value);
    __syncthreads();
    multiply_add<max_dim>(scores, key_value, output);
  }

  float factor[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    factor[i] = 1.0F / sum[i];
    const int row = 4 * me.ty + i;
    if (me.tx == 0 && row < queries) {
      call.lse[places.lse(batch, head, first_query + row)] = largest[i] + logf(sum[i]);
    }
  }
  store_channels<max_dim>(output, factor, call.out + places.out(batch, first_query, head), places.out_row(),
                          queries, places.head_dim, whole);
}

}  // namespace

template <class T>
void attention_forward(StreamHandle stream, const AttentionForward<T>& call) {
  const math::AttentionShape& shape = call.shape;
  if constexpr (!std::is_same_v<T, float>) {
    if (shape.head_dim % 8 == 0) return attention_forward_tensor(stream, call);
  }
  const bool whole = aligned(call.qkv, call.out) && shape.head_dim % 4 == 0;
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  with_padded_head(shape.head_dim, [&]<int max_dim>(std::integral_constant<int, max_dim>) {
    launch("attention_forward", attention_forward_kernel<T, max_dim>,
           {.blocks_x = ceil_divide(shape.tokens, attention_tile),
            .blocks_y = shape.batch * shape.heads,
            .threads = attention_threads,
            .shared_bytes = forward_shared_bytes<max_dim>},
           stream, call, scale, whole);
  });
}

template void attention_forward(StreamHandle, const AttentionForward<float>&);
template void attention_forward(StreamHandle, const AttentionForward<bfloat16>&);
template void attention_forward(StreamHandle, const AttentionForward<float16>&);

}  // namespace penstock::cuda
