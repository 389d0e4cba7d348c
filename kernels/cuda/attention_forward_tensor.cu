#include <cmath>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/reduction.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace penstock::cuda {
namespace {

constexpr int tensor_threads = 128;  ///< a warp has 16 queries of the tile
constexpr int key_blocks = attention_tile / 8;

/// Tiles of 64 rows in shared memory as bf16 or fp16.
template <int max_dim>
struct TensorTiles {
  static constexpr int stride = max_dim + 8;  ///< 8: rows start in other banks, and stay 16-byte aligned
  static constexpr int elements = attention_tile * stride;
  static constexpr int steps = max_dim / 16;  ///< of 16 channels
  /// Keys and values of the tile at hand, and of the next.
  static constexpr size_t shared_bytes = 4 * elements * sizeof(uint16_t);
};

/// to (64, max_dim) = the first `rows` rows of `from`, 0 beyond them and beyond head_dim channels. With
/// `whole` it only starts.
template <int max_dim, class T>
__device__ void start_tile(const T* from, int64_t row_stride, int64_t rows, int64_t head_dim, bool whole,
                           Shared<T> to) {
  constexpr int packs = max_dim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < attention_tile * packs; i += tensor_threads) {
    const int row = i / packs;
    const int channel = i % packs * 8;
    const bool present = row < rows && channel < head_dim;
    const T* const source = present ? from + row * row_stride + channel : from;
    const Shared<T> place = to + (row * TensorTiles<max_dim>::stride + channel);
    if (whole) {
      copy_async(place, source, present);
    } else {
      for (int e = 0; e < 8; ++e) place[e] = present ? source[e] : T{};
    }
  }
}

/// Over the four lanes that hold a row.
template <class Combine>
__device__ float over_quad(float value, const Combine& combine) {
  value = combine(value, shuffle_xor(value, 1));
  return combine(value, shuffle_xor(value, 2));
}

/// As attention_forward_kernel: a block a tile of 64 queries of a head, one pass over the keys they see.
/// While a tile of keys and values is used, the next one is on its way.
template <class T, int max_dim>
__global__ void __launch_bounds__(tensor_threads)
    attention_forward_tensor_kernel(AttentionForward<T> call, float scale, bool whole) {
  using Tiles = TensorTiles<max_dim>;
  constexpr int stride = Tiles::stride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int quad = lane / 4;      // rows quad and quad + 8 of the warp's 16
  const int pair = lane % 4 * 2;  // columns pair and pair + 1 of every 8
  const int matrix = lane / 8;    // whose row it names where matrices are loaded
  const int matrix_row = lane % 8;
  const AttentionPlaces places(call.shape);
  const int used_steps = static_cast<int>((places.head_dim + 15) / 16);
  const Shared<T> memory = dynamic_shared<T>();
  const int64_t tile = gridDim.x - 1 - blockIdx.x;  // the last see most keys: they come first
  const int64_t batch = blockIdx.y / places.heads;
  const int64_t head = blockIdx.y % places.heads;
  const int64_t group = head / (places.heads / places.kv_heads);
  const int64_t first_query = tile * attention_tile;
  const int64_t queries = min(static_cast<int64_t>(attention_tile), places.tokens - first_query);
  const int64_t first_tile = first_visible(call.starts, places, batch, first_query) / attention_tile;

  const auto start_keys_and_values = [&](int64_t key_tile) {
    const int64_t first = key_tile * attention_tile;
    const int64_t keys = min(static_cast<int64_t>(attention_tile), places.tokens - first);
    const Shared<T> to = memory + (key_tile - first_tile) % 2 * 2 * Tiles::elements;
    start_tile<max_dim>(call.qkv + places.key(batch, first, group), places.row(), keys, places.head_dim,
                        whole, to);
    start_tile<max_dim>(call.qkv + places.value(batch, first, group), places.row(), keys, places.head_dim,
                        whole, to + Tiles::elements);
  };

  // The queries pass through the place of the second tile into registers.
  const Shared<T> query = memory + 2 * Tiles::elements;
  start_tile<max_dim>(call.qkv + places.query(batch, first_query, head), places.row(), queries,
                      places.head_dim, whole, query);
  commit_async();
  start_keys_and_values(first_tile);
  commit_async();
  wait_async<1>();
  __syncthreads();
  uint32_t q[Tiles::steps][4];
#pragma unroll
  for (int step = 0; step < Tiles::steps; ++step) {
    const int row = 16 * warp + matrix % 2 * 8 + matrix_row;
    load_matrices(q[step], query + (row * stride + 16 * step + matrix / 2 * 8));
  }
  __syncthreads();  // everybody has them

  int64_t token[2];
  int64_t first_key[2];
  float largest[2];
  float sum[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    token[r] = first_query + 16 * warp + quad + 8 * r;
    first_key[r] = first_visible(call.starts, places, batch, min(token[r], places.tokens - 1));
    largest[r] = -INFINITY;
    sum[r] = 0;
  }
  float output[2 * Tiles::steps][4] = {};
  for (int64_t key_tile = first_tile; key_tile <= tile; ++key_tile) {
    if (key_tile < tile) start_keys_and_values(key_tile + 1);
    commit_async();
    wait_async<1>();
    __syncthreads();
    const Shared<T> key = memory + (key_tile - first_tile) % 2 * 2 * Tiles::elements;
    const Shared<T> value = key + Tiles::elements;

    float score[key_blocks][4] = {};
#pragma unroll
    for (int step = 0; step < Tiles::steps; ++step) {
      if (step >= used_steps) continue;
#pragma unroll
      for (int n = 0; n < key_blocks; n += 2) {
        uint32_t b[4];
        const int row = 8 * n + matrix / 2 * 8 + matrix_row;
        load_matrices(b, key + (row * stride + 16 * step + matrix % 2 * 8));
        multiply_matrices<T>(score[n], q[step], b[0], b[1]);
        multiply_matrices<T>(score[n + 1], q[step], b[2], b[3]);
      }
    }

    const int64_t first = key_tile * attention_tile;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float here = -INFINITY;
#pragma unroll
      for (int n = 0; n < key_blocks; ++n) {
#pragma unroll
        for (int c = 2 * r; c < 2 * r + 2; ++c) {
          const int64_t at = first + 8 * n + pair + c % 2;
          score[n][c] = at > token[r] || at < first_key[r] ? -INFINITY : score[n][c] * scale;
          here = fmaxf(here, score[n][c]);
        }
      }
      const float before = largest[r];
      largest[r] = fmaxf(before, over_quad(here, Larger{}));
      const float base = largest[r] == -INFINITY ? 0.0F : largest[r];  // nothing seen yet: e^−∞ = 0, not NaN
      const float factor = expf(before - base);
      float added = 0;
#pragma unroll
      for (int n = 0; n < key_blocks; ++n) {
#pragma unroll
        for (int c = 2 * r; c < 2 * r + 2; ++c) {
          score[n][c] = expf(score[n][c] - base);
          added += score[n][c];
        }
      }
      sum[r] = sum[r] * factor + over_quad(added, Add{});
#pragma unroll
      for (auto& block : output) {
        block[2 * r] *= factor;
        block[2 * r + 1] *= factor;
      }
    }

#pragma unroll
    for (int n = 0; n < key_blocks; n += 2) {
      const uint32_t a[4] = {pack<T>(score[n][0], score[n][1]), pack<T>(score[n][2], score[n][3]),
                             pack<T>(score[n + 1][0], score[n + 1][1]),
                             pack<T>(score[n + 1][2], score[n + 1][3])};
#pragma unroll
      for (int d = 0; d < Tiles::steps; ++d) {
        if (d >= used_steps) continue;
        uint32_t b[4];
        const int row = 8 * n + matrix % 2 * 8 + matrix_row;
        load_transposed(b, value + (row * stride + 16 * d + matrix / 2 * 8));
        multiply_matrices<T>(output[2 * d], a, b[0], b[1]);
        multiply_matrices<T>(output[2 * d + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();  // the tile has been used
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = 16 * warp + quad + 8 * r;
    if (row >= queries) continue;
    const float factor = 1.0F / sum[r];
    if (pair == 0) call.lse[places.lse(batch, head, token[r])] = largest[r] + logf(sum[r]);
    T* const to = call.out + places.out(batch, token[r], head);
#pragma unroll
    for (int n = 0; n < 2 * Tiles::steps; ++n) {
      store<2>(to, 8 * n + pair, places.head_dim, whole,
               Floats<2>{{output[n][2 * r] * factor, output[n][2 * r + 1] * factor}});
    }
  }
}

}  // namespace

template <class T>
void attention_forward_tensor(StreamHandle stream, const AttentionForward<T>& call) {
  const math::AttentionShape& shape = call.shape;
  const bool whole = aligned(call.qkv, call.out);
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  with_padded_head(shape.head_dim, [&]<int max_dim>(std::integral_constant<int, max_dim>) {
    launch("attention_forward_tensor", attention_forward_tensor_kernel<T, max_dim>,
           {.blocks_x = ceil_divide(shape.tokens, attention_tile),
            .blocks_y = shape.batch * shape.heads,
            .threads = tensor_threads,
            .shared_bytes = TensorTiles<max_dim>::shared_bytes},
           stream, call, scale, whole);
  });
}

template void attention_forward_tensor(StreamHandle, const AttentionForward<bfloat16>&);
template void attention_forward_tensor(StreamHandle, const AttentionForward<float16>&);

}  // namespace penstock::cuda
