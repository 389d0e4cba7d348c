#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.cuh"
#include "kernels/math/attention.h"

/// What the attention kernels share: tiles of 64 rows in shared memory as fp32, and the products of two
/// tiles. 256 threads; thread (tx, ty), tx and ty in 0 … 15, holds rows 4 ty … 4 ty + 3 of a product, and
/// either the four columns tx + 16 j of a product of scores, or the columns 4 tx + 64 j … + 3 of one of
/// channels.
namespace penstock::cuda {

constexpr int attention_tile = 64;
constexpr int attention_threads = 256;
constexpr int score_stride = attention_tile + 4;  ///< 4: rows start in other banks, and stay 16-byte aligned
constexpr int tile_scores = attention_tile * score_stride;

/// Channels are padded to max_dim, 64 or 128.
template <int max_dim>
struct AttentionTiles {
  static constexpr int stride = max_dim + 4;
  static constexpr int floats = attention_tile * stride;
  static constexpr int groups = max_dim / 64;  ///< fours of channels a thread holds of each row
};

struct AttentionThread {
  int tx = static_cast<int>(threadIdx.x) % 16;
  int ty = static_cast<int>(threadIdx.x) / 16;
};

/// Places in qkv and out.
struct AttentionPlaces {
  int64_t tokens;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;

  __device__ explicit AttentionPlaces(const math::AttentionShape& shape)
      : tokens(shape.tokens), heads(shape.heads), kv_heads(shape.kv_heads), head_dim(shape.head_dim) {}

  __device__ int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
  __device__ int64_t out_row() const { return heads * head_dim; }
  __device__ int64_t query(int64_t batch, int64_t token, int64_t head) const {
    return (batch * tokens + token) * row() + head * head_dim;
  }
  __device__ int64_t key(int64_t batch, int64_t token, int64_t group) const {
    return query(batch, token, heads + group);
  }
  __device__ int64_t value(int64_t batch, int64_t token, int64_t group) const {
    return query(batch, token, heads + kv_heads + group);
  }
  __device__ int64_t out(int64_t batch, int64_t token, int64_t head) const {
    return (batch * tokens + token) * out_row() + head * head_dim;
  }
  __device__ int64_t lse(int64_t batch, int64_t head, int64_t token) const {
    return (batch * heads + head) * tokens + token;
  }
};

/// to (64, max_dim) = scale · the first `rows` rows of `from`, 0 beyond its rows and its head_dim channels.
template <int max_dim, class T>
__device__ void load_tile(const T* from, int64_t row_stride, int64_t rows, int64_t head_dim, float scale,
                          bool whole, Shared<float> to) {
  constexpr int packs = max_dim / 4;
  for (int i = static_cast<int>(threadIdx.x); i < attention_tile * packs; i += attention_threads) {
    const int row = i / packs;
    const int channel = i % packs * 4;
    Floats<4> values{};
    if (row < rows) values = load<4>(from + row * row_stride, channel, head_dim, whole);
    store4(to + (row * AttentionTiles<max_dim>::stride + channel),
           make_float4(values[0] * scale, values[1] * scale, values[2] * scale, values[3] * scale));
  }
}

__device__ inline float dot4(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

/// A thread's scores: [i][j] of row 4 ty + i and column tx + 16 j.
struct Scores {
  float at[4][4] = {};
};

/// a (64, depth) · b (64, depth)ᵀ; depth is a multiple of 4.
template <int max_dim>
__device__ Scores multiply_rows(Shared<const float> a, Shared<const float> b, int depth) {
  constexpr int stride = AttentionTiles<max_dim>::stride;
  const AttentionThread me;
  Scores result;
  for (int d = 0; d < depth; d += 4) {
    float4 right[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) right[j] = load4(b + ((me.tx + 16 * j) * stride + d));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 left = load4(a + ((4 * me.ty + i) * stride + d));
#pragma unroll
      for (int j = 0; j < 4; ++j) result.at[i][j] = dot4(left, right[j], result.at[i][j]);
    }
  }
  return result;
}

/// A thread's channels: [i][j] of row 4 ty + i and channels 4 tx + 64 j … + 3.
template <int max_dim>
struct Channels {
  float4 at[4][AttentionTiles<max_dim>::groups] = {};
};

/// sum += a (64, 64; rows score_stride apart) · b (64, max_dim).
template <int max_dim>
__device__ void multiply_add(Shared<const float> a, Shared<const float> b, Channels<max_dim>& sum) {
  constexpr int stride = AttentionTiles<max_dim>::stride;
  const AttentionThread me;
#pragma unroll 2
  for (int k = 0; k < attention_tile; k += 4) {
    float left[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 four = load4(a + ((4 * me.ty + i) * score_stride + k));
      left[i][0] = four.x;
      left[i][1] = four.y;
      left[i][2] = four.z;
      left[i][3] = four.w;
    }
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
#pragma unroll
      for (int j = 0; j < AttentionTiles<max_dim>::groups; ++j) {
        const float4 right = load4(b + ((k + kk) * stride + 4 * me.tx + 64 * j));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float4& to = sum.at[i][j];
          to.x = fmaf(left[i][kk], right.x, to.x);
          to.y = fmaf(left[i][kk], right.y, to.y);
          to.z = fmaf(left[i][kk], right.z, to.z);
          to.w = fmaf(left[i][kk], right.w, to.w);
        }
      }
    }
  }
}

/// The first `rows` of a thread's rows, times factor [i], to memory.
template <int max_dim, class T>
__device__ void store_channels(const Channels<max_dim>& values, const float (&factor)[4], T* to,
                               int64_t row_stride, int64_t rows, int64_t head_dim, bool whole) {
  const AttentionThread me;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (4 * me.ty + i >= rows) continue;
#pragma unroll
    for (int j = 0; j < AttentionTiles<max_dim>::groups; ++j) {
      const float4 four = values.at[i][j];
      store<4>(to + (4 * me.ty + i) * row_stride, 4 * me.tx + 64 * j, head_dim, whole,
               Floats<4>{{four.x * factor[i], four.y * factor[i], four.z * factor[i], four.w * factor[i]}});
    }
  }
}

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Channels of a head that products run over.
__device__ inline int product_depth(int64_t head_dim) {
  return static_cast<int>((head_dim + 3) / 4 * 4);
}

/// The first token that query `token` sees.
__device__ inline int64_t first_visible(const int32_t* starts, const AttentionPlaces& places, int64_t batch,
                                        int64_t token) {
  return starts == nullptr ? 0 : starts[batch * places.tokens + token];
}

/// Host: start(std::integral_constant) with the padded head size.
template <class Start>
void with_padded_head(int64_t head_dim, const Start& start) {
  if (head_dim <= 64) {
    start(std::integral_constant<int, 64>{});
  } else {
    start(std::integral_constant<int, 128>{});
  }
}

}  // namespace penstock::cuda
