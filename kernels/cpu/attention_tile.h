#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/transpose.h"
#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"
#include "kernels/math/attention.h"

/// The pieces of flash attention on the CPU. A tile of queries is kept transposed, a query in each lane
/// ("(D,64)": channel by query), so that scores come out as (keys, 64) and softmax needs no sum across lanes.
/// Tiles are cut at multiples of 64 tokens of a sequence whatever the threads do (contract C1).
namespace penstock::cpu {

/// Queries of a tile, and keys of a tile.
inline constexpr int64_t attention_tile = 64;
inline constexpr int64_t tile_vectors = attention_tile / lane_count;
inline constexpr int64_t tile_scores = attention_tile * attention_tile;

/// One call: tensors as plain pointers, T the stored type. out and dout (N, H·D), lse (B,H,T).
template <class T>
struct AttentionCall {
  math::AttentionShape shape;
  const T* qkv = nullptr;
  const int32_t* starts = nullptr;  ///< may be null
  T* out = nullptr;
  float* lse = nullptr;
  const T* dout = nullptr;
  T* dqkv = nullptr;
  char* workspace = nullptr;
  int threads = 1;

  int64_t tiles() const { return (shape.tokens + attention_tile - 1) / attention_tile; }
  int64_t row() const { return (shape.heads + 2 * shape.kv_heads) * shape.head_dim; }
  int64_t out_row() const { return shape.heads * shape.head_dim; }
  int64_t heads_per_group() const { return shape.heads / shape.kv_heads; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(shape.head_dim)); }
  /// Offset in qkv of channel 0 of token t's query head, key head, value head.
  int64_t query(int64_t batch, int64_t t, int64_t head) const {
    return (batch * shape.tokens + t) * row() + head * shape.head_dim;
  }
  int64_t key(int64_t batch, int64_t t, int64_t group) const { return query(batch, t, shape.heads + group); }
  int64_t value(int64_t batch, int64_t t, int64_t group) const {
    return query(batch, t, shape.heads + shape.kv_heads + group);
  }
  int64_t out_at(int64_t batch, int64_t t, int64_t head) const {
    return (batch * shape.tokens + t) * out_row() + head * shape.head_dim;
  }
  int64_t lse_at(int64_t batch, int64_t t, int64_t head) const {
    return (batch * shape.heads + head) * shape.tokens + t;
  }
};

/// The number of channels rounded up to whole vectors: the width of rows that a product reads as vectors.
constexpr int64_t padded_channels(int64_t head_dim) {
  return (head_dim + lane_count - 1) / lane_count * lane_count;
}

/// Tokens [first, first + count) of tile `tile`.
struct TileRange {
  int64_t first;
  int64_t count;
};
inline TileRange tile_range(int64_t tile, int64_t tokens) {
  const int64_t first = tile * attention_tile;
  return {first, std::min(attention_tile, tokens - first)};
}

/// Which keys the queries of a tile may see: from first_key[query] to the query itself.
struct Visibility {
  TileRange queries{};
  alignas(64) std::array<int32_t, attention_tile> first_key{};
  int32_t earliest = 0;
  int32_t latest = 0;

  /// starts: of the sequence (T), or null. Lanes without a query see everything; nobody reads their results.
  Visibility(int64_t tile, int64_t tokens, const int32_t* starts) : queries(tile_range(tile, tokens)) {
    if (starts == nullptr) return;
    const int32_t* const begin = starts + queries.first;
    std::copy(begin, begin + queries.count, first_key.begin());
    const auto [low, high] = std::minmax_element(begin, begin + queries.count);
    earliest = *low;
    latest = *high;
  }
  int64_t first_key_tile() const { return earliest / attention_tile; }
};

/// −∞ in the scores (keys, 64) that a query may not see; key 0 of the block is `first`.
inline void mask_scores(const Visibility& visible, int64_t first, int64_t keys, int64_t first_vector,
                        float* scores) {
  const auto lane_begin = static_cast<int32_t>(first_vector * lane_count);
  for (int64_t k = 0; k < keys; ++k) {
    const auto key = static_cast<int32_t>(first + k);
    const auto diagonal = static_cast<int32_t>(first + k - visible.queries.first);
    float* const row = scores + k * attention_tile;
#pragma omp simd
    for (int32_t lane = lane_begin; lane < static_cast<int32_t>(attention_tile); ++lane) {
      row[lane] =
          (key >= visible.first_key[static_cast<size_t>(lane)] && diagonal <= lane) ? row[lane] : -INFINITY;
    }
  }
}

/// Calls body(first key, keys, first vector, masked) for the blocks of a key tile: all of it, or on the
/// diagonal 16 keys at a time with only the vectors of queries that see them.
template <class Body>
void for_key_blocks(const Visibility& visible, int64_t key_tile, const Body& body) {
  const int64_t first = key_tile * attention_tile;
  if (first < visible.queries.first) {
    body(first, attention_tile, int64_t{0}, visible.latest > first);
    return;
  }
  for (int64_t k = 0; k < visible.queries.count; k += lane_count) {
    body(first + k, std::min<int64_t>(lane_count, visible.queries.count - k), k / lane_count, true);
  }
}

/// to (rows, width) = from (rows, head_dim) · scale, zero beyond head_dim.
template <class T>
void convert_rows(const T* from, int64_t from_row, int64_t rows, int64_t head_dim, float scale, float* to,
                  int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* const in = from + row * from_row;
    float* const out = to + row * width;
#pragma omp simd
    for (int64_t c = 0; c < head_dim; ++c) out[c] = static_cast<float>(in[c]) * scale;
    std::fill(out + head_dim, out + width, 0.0F);
  }
}

/// to (head_dim, 64) = from (count, width)ᵀ; zero in the lanes without a row.
inline void transpose_rows(const float* from, int64_t width, int64_t count, int64_t head_dim, float* to) {
  if (count < attention_tile) std::fill(to, to + head_dim * attention_tile, 0.0F);
  transpose(from, width, count, head_dim, to, attention_tile);
}

/// Hands out pieces of one thread's part of the workspace.
class TileScratch {
 public:
  explicit TileScratch(char* memory) : next_(reinterpret_cast<float*>(memory)) {}
  float* take(int64_t floats) {
    float* const piece = next_;
    next_ += floats;
    return piece;
  }

 private:
  float* next_;
};

/// A tile of queries of one head of one sequence, and all keys of the sequence. Rows of queries, keys and
/// results are so many elements apart.
template <class T>
struct ForwardTile {
  const T* query = nullptr;  ///< the tile's first
  int64_t query_row = 0;
  const T* key = nullptr;  ///< of token 0
  const T* value = nullptr;
  int64_t key_row = 0;
  T* out = nullptr;  ///< of the tile's first query
  int64_t out_row = 0;
  float* lse = nullptr;             ///< of the tile's first query; may be null
  const int32_t* starts = nullptr;  ///< of the sequence (T), may be null
  int64_t tokens = 0;               ///< T
  int64_t head_dim = 0;
};

/// out and lse of tile number `tile`; `memory`: attention_forward_bytes.
template <class T>
void forward_tile(const ForwardTile<T>& at, int64_t tile, char* memory);

/// Bytes of one thread's part of the workspace.
size_t attention_forward_bytes(int64_t head_dim);
size_t attention_backward_bytes(const math::AttentionShape& shape);

template <class T>
void run_attention_forward(const AttentionCall<T>& call);
template <class T>
void run_attention_backward(const AttentionCall<T>& call);

}  // namespace penstock::cpu
