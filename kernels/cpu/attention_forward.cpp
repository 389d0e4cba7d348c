#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/vector_math.h"

namespace penstock::cpu {
namespace {

/// Largest score and sum of exponentials of each query so far.
struct SoftmaxState {
  alignas(64) std::array<float, attention_tile> largest;
  alignas(64) std::array<float, attention_tile> sum;
  SoftmaxState() {
    largest.fill(-INFINITY);
    sum.fill(0.0F);
  }
};

/// One step of the online softmax (Milakov and Gimelshein, 2018) for one vector of queries: scores (keys, 64)
/// become exponentials relative to the new maximum; sum and output (D,64) are rescaled to it.
void exponentials(int64_t vector, int64_t keys, int64_t head_dim, float* scores, SoftmaxState& state,
                  float* output) {
  const int64_t begin = vector * lane_count;
  float* const largest = state.largest.data() + begin;
  float* const sum = state.sum.data() + begin;
  alignas(64) std::array<float, lane_count> factors;
  alignas(64) std::array<float, lane_count> bases;
  float* const factor = factors.data();
  float* const base = bases.data();
#pragma omp simd
  for (int lane = 0; lane < lane_count; ++lane) base[lane] = largest[lane];
  for (int64_t k = 0; k < keys; ++k) {
    const float* const row = scores + k * attention_tile + begin;
#pragma omp simd
    for (int lane = 0; lane < lane_count; ++lane)
      base[lane] = row[lane] > base[lane] ? row[lane] : base[lane];
  }
  bool rescale = false;
#pragma omp simd reduction(| : rescale)
  for (int lane = 0; lane < lane_count; ++lane) {
    const float old = largest[lane];
    largest[lane] = base[lane];
    base[lane] = base[lane] == -INFINITY ? 0.0F : base[lane];  // nothing seen yet: e^−∞ = 0, not NaN
    factor[lane] = vector_exp(old - base[lane]);
    sum[lane] *= factor[lane];
    rescale |= factor[lane] != 1.0F;
  }
  for (int64_t k = 0; k < keys; ++k) {
    float* const row = scores + k * attention_tile + begin;
#pragma omp simd
    for (int lane = 0; lane < lane_count; ++lane) {
      row[lane] = vector_exp(row[lane] - base[lane]);
      sum[lane] += row[lane];
    }
  }
  if (!rescale) return;
  for (int64_t c = 0; c < head_dim; ++c) {
    float* const row = output + c * attention_tile + begin;
#pragma omp simd
    for (int lane = 0; lane < lane_count; ++lane) row[lane] *= factor[lane];
  }
}

}  // namespace

template <class T>
void forward_tile(const ForwardTile<T>& at, int64_t tile, char* memory) {
  const int64_t d = at.head_dim;
  const Visibility visible(tile, at.tokens, at.starts);
  const TileRange queries = visible.queries;

  TileScratch scratch(memory);
  float* const query = scratch.take(d * attention_tile);
  float* const output = scratch.take(d * attention_tile);
  float* const key = scratch.take(d * attention_tile);
  float* const value = scratch.take(d * attention_tile);
  float* const scores = scratch.take(tile_scores);

  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  convert_rows(at.query, at.query_row, queries.count, d, scale, key, d);
  transpose_rows(key, d, queries.count, d, query);
  std::fill(output, output + d * attention_tile, 0.0F);
  SoftmaxState state;
  for (int64_t key_tile = visible.first_key_tile(); key_tile <= tile; ++key_tile) {
    const TileRange keys = tile_range(key_tile, at.tokens);
    convert_rows(at.key + keys.first * at.key_row, at.key_row, keys.count, d, 1.0F, key, d);
    convert_rows(at.value + keys.first * at.key_row, at.key_row, keys.count, d, 1.0F, value, d);
    for_key_blocks(visible, key_tile, [&](int64_t first, int64_t count, int64_t vector, bool masked) {
      const int64_t lane = vector * lane_count;
      const int64_t offset = (first - keys.first) * d;
      multiply({.a = key + offset,
                .a_row = d,
                .a_depth = 1,
                .b = query + lane,
                .b_depth = attention_tile,
                .c = scores + lane,
                .c_row = attention_tile,
                .rows = count,
                .vectors = tile_vectors - vector,
                .depth = d,
                .accumulate = false});
      if (masked) mask_scores(visible, first, count, vector, scores);
      for (int64_t v = vector; v < tile_vectors; ++v) exponentials(v, count, d, scores, state, output);
      multiply({.a = value + offset,
                .a_row = 1,
                .a_depth = d,
                .b = scores + lane,
                .b_depth = attention_tile,
                .c = output + lane,
                .c_row = attention_tile,
                .rows = d,
                .vectors = tile_vectors - vector,
                .depth = count,
                .accumulate = true});
    });
  }

  transpose(output, attention_tile, d, queries.count, key, d);  // the last keys are no longer needed
  for (int64_t q = 0; q < queries.count; ++q) {
    const auto lane = static_cast<size_t>(q);
    const float* const row = key + q * d;
    T* const out = at.out + q * at.out_row;
    const float factor = 1.0F / state.sum[lane];
#pragma omp simd
    for (int64_t c = 0; c < d; ++c) store(out[c], row[c] * factor);
    if (at.lse != nullptr) at.lse[q] = state.largest[lane] + vector_log(state.sum[lane]);
  }
}

template void forward_tile<float>(const ForwardTile<float>&, int64_t, char*);
template void forward_tile<bfloat16>(const ForwardTile<bfloat16>&, int64_t, char*);
template void forward_tile<float16>(const ForwardTile<float16>&, int64_t, char*);

size_t attention_forward_bytes(int64_t head_dim) {
  return static_cast<size_t>(4 * head_dim * attention_tile + tile_scores) * sizeof(float);
}

template <class T>
void run_attention_forward(const AttentionCall<T>& call) {
  const int64_t heads = call.shape.batch * call.shape.heads;
  const auto bytes = static_cast<int64_t>(attention_forward_bytes(call.shape.head_dim));
  // The last tiles see most keys: they come first.
  parallel_uneven_blocks(heads * call.tiles(), [&](int64_t block) {
    const int64_t tile = call.tiles() - 1 - block / heads;
    const int64_t batch = block % heads / call.shape.heads;
    const int64_t head = block % heads % call.shape.heads;
    const int64_t group = head / call.heads_per_group();
    const int64_t first = tile * attention_tile;
    const ForwardTile<T> at{
        .query = call.qkv + call.query(batch, first, head),
        .query_row = call.row(),
        .key = call.qkv + call.key(batch, 0, group),
        .value = call.qkv + call.value(batch, 0, group),
        .key_row = call.row(),
        .out = call.out + call.out_at(batch, first, head),
        .out_row = call.out_row(),
        .lse = call.lse + call.lse_at(batch, first, head),
        .starts = call.starts == nullptr ? nullptr : call.starts + batch * call.shape.tokens,
        .tokens = call.shape.tokens,
        .head_dim = call.shape.head_dim};
    forward_tile(at, tile, call.workspace + thread_index() * bytes);
  });
}

template void run_attention_forward<float>(const AttentionCall<float>&);
template void run_attention_forward<bfloat16>(const AttentionCall<bfloat16>&);
template void run_attention_forward<float16>(const AttentionCall<float16>&);

}  // namespace penstock::cpu
