#include <cmath>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/reduction.cuh"

namespace penstock::cuda {
namespace {

template <int max_dim>
constexpr size_t backward_shared_bytes = (4 * AttentionTiles<max_dim>::floats + tile_scores) * sizeof(float);

/// delta (B,H,T) = Σ over channels of dout · out. A warp a row.
template <class T>
__global__ void __launch_bounds__(attention_threads)
    attention_delta_kernel(AttentionBackward<T> call, bool whole) {
  constexpr int width = 4;
  const AttentionPlaces places(call.shape);
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * (attention_threads / warp_threads) + threadIdx.x / warp_threads;
  if (row >= call.shape.batch * places.tokens * places.heads) return;
  const int64_t n = row / places.heads;
  const int64_t head = row - n * places.heads;
  const int64_t batch = n / places.tokens;
  const T* const dout = call.dout + row * places.head_dim;
  const T* const out = call.out + row * places.head_dim;
  float sum = 0;
  for (int64_t first = threadIdx.x % warp_threads * width; first < places.head_dim;
       first += warp_threads * width) {
    const Floats<width> a = load<width>(dout, first, places.head_dim, whole);
    const Floats<width> b = load<width>(out, first, places.head_dim, whole);
#pragma unroll
    for (int i = 0; i < width; ++i) sum = fmaf(a[i], b[i], sum);
  }
  sum = reduce_sum<warp_threads>(sum);
  if (threadIdx.x % warp_threads == 0) {
    call.delta[places.lse(batch, head, n - batch * places.tokens)] = sum;
  }
}

/// Four tiles and one of scores.
template <int max_dim>
struct BackwardTiles {
  Shared<float> query = dynamic_shared<float>();  ///< times the scale
  Shared<float> dout = query + AttentionTiles<max_dim>::floats;
  Shared<float> key = dout + AttentionTiles<max_dim>::floats;
  Shared<float> value = key + AttentionTiles<max_dim>::floats;
  Shared<float> scores = value + AttentionTiles<max_dim>::floats;

  template <class T>
  __device__ void load_queries(const AttentionBackward<T>& call, const AttentionPlaces& places, int64_t batch,
                               int64_t head, int64_t tile, float scale, bool whole) const {
    const int64_t first = tile * attention_tile;
    const int64_t rows = min(static_cast<int64_t>(attention_tile), places.tokens - first);
    load_tile<max_dim>(call.qkv + places.query(batch, first, head), places.row(), rows, places.head_dim,
                       scale, whole, query);
    load_tile<max_dim>(call.dout + places.out(batch, first, head), places.out_row(), rows, places.head_dim,
                       1.0F, whole, dout);
  }
  template <class T>
  __device__ void load_keys(const AttentionBackward<T>& call, const AttentionPlaces& places, int64_t batch,
                            int64_t group, int64_t tile, bool whole) const {
    const int64_t first = tile * attention_tile;
    const int64_t rows = min(static_cast<int64_t>(attention_tile), places.tokens - first);
    load_tile<max_dim>(call.qkv + places.key(batch, first, group), places.row(), rows, places.head_dim, 1.0F,
                       whole, key);
    load_tile<max_dim>(call.qkv + places.value(batch, first, group), places.row(), rows, places.head_dim,
                       1.0F, whole, value);
  }
};

/// What a thread's four queries have in common with all keys.
struct QueryRows {
  int64_t token[4];
  int64_t first_key[4];
  float lse[4];
  float delta[4];

  template <class T>
  __device__ QueryRows(const AttentionBackward<T>& call, const AttentionPlaces& places, int64_t batch,
                       int64_t head, int64_t tile) {
    const AttentionThread me;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      token[i] = tile * attention_tile + 4 * me.ty + i;
      const bool there = token[i] < places.tokens;
      const int64_t safe = there ? token[i] : places.tokens - 1;
      first_key[i] = there ? first_visible(call.starts, places, batch, safe) : places.tokens;  // sees nothing
      lse[i] = call.lse[places.lse(batch, head, safe)];
      delta[i] = call.delta[places.lse(batch, head, safe)];
    }
  }
};

/// Probabilities and the gradients of the scores of the loaded queries and keys.
struct ScoreGradients {
  Scores probability;
  Scores dscore;

  template <int max_dim>
  __device__ ScoreGradients(const BackwardTiles<max_dim>& tiles, const QueryRows& rows, int64_t first_key,
                            int depth)
      : probability(multiply_rows<max_dim>(tiles.query, tiles.key, depth)),
        dscore(multiply_rows<max_dim>(tiles.dout, tiles.value, depth)) {
    const AttentionThread me;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t key = first_key + me.tx + 16 * j;
        const bool visible = key <= rows.token[i] && key >= rows.first_key[i];
        const float p = visible ? expf(probability.at[i][j] - rows.lse[i]) : 0.0F;
        probability.at[i][j] = p;
        dscore.at[i][j] = p * (dscore.at[i][j] - rows.delta[i]);
      }
    }
  }
};

/// A block a tile of queries of a head.
template <class T, int max_dim>
__global__ void __launch_bounds__(attention_threads)
    attention_query_kernel(AttentionBackward<T> call, float scale, bool whole) {
  const AttentionThread me;
  const AttentionPlaces places(call.shape);
  const BackwardTiles<max_dim> tiles;
  const int64_t tile = gridDim.x - 1 - blockIdx.x;  // the last see most keys: they come first
  const int64_t batch = blockIdx.y / places.heads;
  const int64_t head = blockIdx.y % places.heads;
  const int64_t group = head / (places.heads / places.kv_heads);
  const int64_t first_query = tile * attention_tile;
  const QueryRows rows(call, places, batch, head, tile);
  Channels<max_dim> dquery;
  tiles.load_queries(call, places, batch, head, tile, scale, whole);
  const int64_t first_tile = first_visible(call.starts, places, batch, first_query) / attention_tile;
  for (int64_t key_tile = first_tile; key_tile <= tile; ++key_tile) {
    __syncthreads();  // the tiles before have been used
    tiles.load_keys(call, places, batch, group, key_tile, whole);
    __syncthreads();
    const ScoreGradients found(tiles, rows, key_tile * attention_tile, product_depth(places.head_dim));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        tiles.scores[(4 * me.ty + i) * score_stride + me.tx + 16 * j] = found.dscore.at[i][j];
      }
    }
    __syncthreads();
    multiply_add<max_dim>(tiles.scores, tiles.key, dquery);
  }
  const float factor[4] = {scale, scale, scale, scale};
  store_channels<max_dim>(dquery, factor, call.dqkv + places.query(batch, first_query, head), places.row(),
                          min(static_cast<int64_t>(attention_tile), places.tokens - first_query),
                          places.head_dim, whole);
}

/// scores = valuesᵀ: a thread's scores of four queries lie side by side in the row of a key.
__device__ void store_transposed(const Scores& values, Shared<float> scores) {
  const AttentionThread me;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    store4(scores + ((me.tx + 16 * j) * score_stride + 4 * me.ty),
           make_float4(values.at[0][j], values.at[1][j], values.at[2][j], values.at[3][j]));
  }
}

/// A block a tile of keys of a key head: the sums over its query heads and their queries, ascending.
template <class T, int max_dim>
__global__ void __launch_bounds__(attention_threads)
    attention_key_kernel(AttentionBackward<T> call, float scale, bool whole) {
  const AttentionPlaces places(call.shape);
  const BackwardTiles<max_dim> tiles;
  const int64_t key_tile = blockIdx.x;  // the first are seen by most queries
  const int64_t batch = blockIdx.y / places.kv_heads;
  const int64_t group = blockIdx.y % places.kv_heads;
  const int64_t first_key = key_tile * attention_tile;
  const int64_t keys = min(static_cast<int64_t>(attention_tile), places.tokens - first_key);
  const int64_t group_heads = places.heads / places.kv_heads;
  Channels<max_dim> dkey;
  Channels<max_dim> dvalue;
  tiles.load_keys(call, places, batch, group, key_tile, whole);
  for (int64_t head = group * group_heads; head < (group + 1) * group_heads; ++head) {
    for (int64_t tile = key_tile; tile * attention_tile < places.tokens; ++tile) {
      if (first_visible(call.starts, places, batch, tile * attention_tile) >= first_key + keys) break;
      __syncthreads();  // the tiles before have been used
      tiles.load_queries(call, places, batch, head, tile, scale, whole);
      __syncthreads();
      const QueryRows rows(call, places, batch, head, tile);
      const ScoreGradients found(tiles, rows, first_key, product_depth(places.head_dim));
      store_transposed(found.probability, tiles.scores);
      __syncthreads();
      multiply_add<max_dim>(tiles.scores, tiles.dout, dvalue);
      __syncthreads();
      store_transposed(found.dscore, tiles.scores);
      __syncthreads();
      multiply_add<max_dim>(tiles.scores, tiles.query, dkey);
    }
  }
  const float one[4] = {1.0F, 1.0F, 1.0F, 1.0F};
  store_channels<max_dim>(dkey, one, call.dqkv + places.key(batch, first_key, group), places.row(), keys,
                          places.head_dim, whole);
  store_channels<max_dim>(dvalue, one, call.dqkv + places.value(batch, first_key, group), places.row(), keys,
                          places.head_dim, whole);
}

}  // namespace

template <class T>
void attention_backward(StreamHandle stream, const AttentionBackward<T>& call) {
  const math::AttentionShape& shape = call.shape;
  const bool whole = aligned(call.qkv, call.out, call.dout, call.dqkv) && shape.head_dim % 4 == 0;
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  const int64_t tiles = ceil_divide(shape.tokens, attention_tile);
  launch("attention_delta", attention_delta_kernel<T>,
         {.blocks_x = ceil_divide(shape.batch * shape.tokens * shape.heads, attention_threads / warp_threads),
          .threads = attention_threads},
         stream, call, whole);
  with_padded_head(shape.head_dim, [&]<int max_dim>(std::integral_constant<int, max_dim>) {
    const auto tile_shape = [&](int64_t heads) {
      return LaunchShape{.blocks_x = tiles,
                         .blocks_y = shape.batch * heads,
                         .threads = attention_threads,
                         .shared_bytes = backward_shared_bytes<max_dim>};
    };
    launch("attention_backward_keys", attention_key_kernel<T, max_dim>, tile_shape(shape.kv_heads), stream,
           call, scale, whole);
    launch("attention_backward_queries", attention_query_kernel<T, max_dim>, tile_shape(shape.heads), stream,
           call, scale, whole);
  });
}

template void attention_backward(StreamHandle, const AttentionBackward<float>&);
template void attention_backward(StreamHandle, const AttentionBackward<bfloat16>&);
template void attention_backward(StreamHandle, const AttentionBackward<float16>&);

}  // namespace penstock::cuda
