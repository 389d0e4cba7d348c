#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/vector_math.h"

namespace penstock::cpu {
namespace {

/// One thread's tiles. Products that sum over queries read query and dout as rows, those that sum over
/// channels or keys read them transposed.
struct BackwardTiles {
  int64_t head_dim;
  int64_t width;  ///< of rows: whole vectors
  float* query_rows;
  float* dout_rows;
  float* query;  ///< (D,64), scaled
  float* dout;   ///< (D,64)
  float* key;    ///< (64,D)
  float* value;  ///< (64,D)
  float* probabilities;
  float* dscores;
  float* dquery;  ///< (D,64)
  float* dkey;    ///< (tokens, width): a tile's, or the whole sequence's
  float* dvalue;
  alignas(64) std::array<float, attention_tile> lse{};
  alignas(64) std::array<float, attention_tile> delta{};

  BackwardTiles(const math::AttentionShape& shape, char* memory)
      : head_dim(shape.head_dim), width(padded_channels(shape.head_dim)) {
    TileScratch scratch(memory);
    query_rows = scratch.take(attention_tile * width);
    dout_rows = scratch.take(attention_tile * width);
    query = scratch.take(attention_tile * head_dim);
    dout = scratch.take(attention_tile * head_dim);
    key = scratch.take(attention_tile * head_dim);
    value = scratch.take(attention_tile * head_dim);
    probabilities = scratch.take(tile_scores);
    dscores = scratch.take(tile_scores);
    dquery = scratch.take(attention_tile * head_dim);
    dkey = scratch.take(shape.tokens * width);
    dvalue = scratch.take(shape.tokens * width);
  }

  static size_t bytes(const math::AttentionShape& shape) {
    const int64_t row = padded_channels(shape.head_dim);
    return static_cast<size_t>(attention_tile * (2 * row + 5 * shape.head_dim) + 2 * tile_scores +
                               2 * shape.tokens * row) *
           sizeof(float);
  }

  template <class T>
  void load_queries(const AttentionCall<T>& call, const TileRange& queries, int64_t batch, int64_t head) {
    const T* const from = call.dout + call.out_at(batch, queries.first, head);
    const T* const out = call.out + call.out_at(batch, queries.first, head);
    convert_rows(call.qkv + call.query(batch, queries.first, head), call.row(), queries.count, head_dim,
                 call.scale(), query_rows, width);
    convert_rows(from, call.out_row(), queries.count, head_dim, 1.0F, dout_rows, width);
    transpose_rows(query_rows, width, queries.count, head_dim, query);
    transpose_rows(dout_rows, width, queries.count, head_dim, dout);
    lse.fill(0.0F);
    delta.fill(0.0F);
    for (int64_t q = 0; q < queries.count; ++q) {
      const float* const gradient = dout_rows + q * width;
      const T* const stored_out = out + q * call.out_row();
      const auto at = static_cast<size_t>(q);
      delta[at] =
          ordered_sum(head_dim, [=](int64_t c) { return gradient[c] * static_cast<float>(stored_out[c]); });
      lse[at] = call.lse[call.lse_at(batch, queries.first + q, head)];
    }
  }

  template <class T>
  void load_keys(const AttentionCall<T>& call, const TileRange& keys, int64_t batch, int64_t group) {
    convert_rows(call.qkv + call.key(batch, keys.first, group), call.row(), keys.count, head_dim, 1.0F, key,
                 head_dim);
    convert_rows(call.qkv + call.value(batch, keys.first, group), call.row(), keys.count, head_dim, 1.0F,
                 value, head_dim);
  }

  /// probabilities and dscores (count, 64) of keys [first, first + count), in the lanes from `vector` on; key
  /// 0 of the loaded tile is tile_first.
  void recompute(const Visibility& visible, int64_t tile_first, int64_t first, int64_t count, int64_t vector,
                 bool masked) const {
    const int64_t lane_begin = vector * lane_count;
    const int64_t offset = (first - tile_first) * head_dim;
    TileProduct product{.a = key + offset,
                        .a_row = head_dim,
                        .a_depth = 1,
                        .b = query + lane_begin,
                        .b_depth = attention_tile,
                        .c = probabilities + lane_begin,
                        .c_row = attention_tile,
                        .rows = count,
                        .vectors = tile_vectors - vector,
                        .depth = head_dim,
                        .accumulate = false};
    multiply(product);
    product.a = value + offset;
    product.b = dout + lane_begin;
    product.c = dscores + lane_begin;
    multiply(product);
    if (masked) mask_scores(visible, first, count, vector, probabilities);
    const float* const log_sum = lse.data();
    const float* const mean = delta.data();
    for (int64_t k = 0; k < count; ++k) {
      float* const p = probabilities + k * attention_tile;
      float* const ds = dscores + k * attention_tile;
#pragma omp simd
      for (int64_t lane = lane_begin; lane < attention_tile; ++lane) {
        p[lane] = vector_exp(p[lane] - log_sum[lane]);
        ds[lane] = p[lane] * (ds[lane] - mean[lane]);
      }
    }
  }

  /// dkey and dvalue (count, width) of the same keys, starting at row `row`, += the sums over queries.
  void add_key_gradients(int64_t row, int64_t count, int64_t vector, int64_t queries) const {
    const int64_t lane = vector * lane_count;
    TileProduct product{.a = dscores + lane,
                        .a_row = attention_tile,
                        .a_depth = 1,
                        .b = query_rows + lane * width,
                        .b_depth = width,
                        .c = dkey + row * width,
                        .c_row = width,
                        .rows = count,
                        .vectors = width / lane_count,
                        .depth = queries - lane,
                        .accumulate = true};
    multiply(product);
    product.a = probabilities + lane;
    product.b = dout_rows + lane * width;
    product.c = dvalue + row * width;
    multiply(product);
  }

  /// dquery (D,64) += the sum over the same keys.
  void add_query_gradients(int64_t tile_first, int64_t first, int64_t count, int64_t vector) const {
    const int64_t lane = vector * lane_count;
    multiply({.a = key + (first - tile_first) * head_dim,
              .a_row = 1,
              .a_depth = head_dim,
              .b = dscores + lane,
              .b_depth = attention_tile,
              .c = dquery + lane,
              .c_row = attention_tile,
              .rows = head_dim,
              .vectors = tile_vectors - vector,
              .depth = count,
              .accumulate = true});
  }

  void clear_query_gradients() const {
    std::fill(dquery, dquery + attention_tile * head_dim, 0.0F);
  }
  void clear_key_gradients(int64_t tokens) const {
    std::fill(dkey, dkey + tokens * width, 0.0F);
    std::fill(dvalue, dvalue + tokens * width, 0.0F);
  }

  template <class T>
  void store_query_gradients(const AttentionCall<T>& call, const TileRange& queries, int64_t batch,
                             int64_t head) const {
    const float scale = call.scale();
    float* const rows = query_rows;  // (count, width): no longer needed as queries
    transpose(dquery, attention_tile, head_dim, queries.count, rows, width);
    for (int64_t q = 0; q < queries.count; ++q) {
      T* const to = call.dqkv + call.query(batch, queries.first + q, head);
#pragma omp simd
      for (int64_t c = 0; c < head_dim; ++c) store(to[c], rows[q * width + c] * scale);
    }
  }

  /// Rows 0… of dkey and dvalue are those of `keys`.
  template <class T>
  void store_key_gradients(const AttentionCall<T>& call, const TileRange& keys, int64_t batch,
                           int64_t group) const {
    for (int64_t k = 0; k < keys.count; ++k) {
      T* const to_key = call.dqkv + call.key(batch, keys.first + k, group);
      T* const to_value = call.dqkv + call.value(batch, keys.first + k, group);
#pragma omp simd
      for (int64_t c = 0; c < head_dim; ++c) {
        store(to_key[c], dkey[k * width + c]);
        store(to_value[c], dvalue[k * width + c]);
      }
    }
  }
};

template <class T>
Visibility visibility(const AttentionCall<T>& call, int64_t batch, int64_t tile) {
  const int64_t tokens = call.shape.tokens;
  return {tile, tokens, call.starts == nullptr ? nullptr : call.starts + batch * tokens};
}

/// All gradients of one key head and its query heads, scores recomputed once.
template <class T>
void backward_group(const AttentionCall<T>& call, int64_t batch, int64_t group, char* memory) {
  BackwardTiles tiles(call.shape, memory);
  const int64_t tokens = call.shape.tokens;
  const int64_t heads = call.heads_per_group();
  tiles.clear_key_gradients(tokens);
  for (int64_t head = group * heads; head < (group + 1) * heads; ++head) {
    for (int64_t tile = 0; tile < call.tiles(); ++tile) {
      const Visibility visible = visibility(call, batch, tile);
      tiles.load_queries(call, visible.queries, batch, head);
      tiles.clear_query_gradients();
      for (int64_t key_tile = visible.first_key_tile(); key_tile <= tile; ++key_tile) {
        const TileRange keys = tile_range(key_tile, tokens);
        tiles.load_keys(call, keys, batch, group);
        for_key_blocks(visible, key_tile, [&](int64_t first, int64_t count, int64_t vector, bool masked) {
          tiles.recompute(visible, keys.first, first, count, vector, masked);
          tiles.add_key_gradients(first, count, vector, visible.queries.count);
          tiles.add_query_gradients(keys.first, first, count, vector);
        });
      }
      tiles.store_query_gradients(call, visible.queries, batch, head);
    }
  }
  tiles.store_key_gradients(call, {0, tokens}, batch, group);
}

/// The key and value gradients of one tile of keys of one key head, in the order of backward_group.
template <class T>
void backward_key_tile(const AttentionCall<T>& call, int64_t batch, int64_t group, int64_t key_tile,
                       char* memory) {
  BackwardTiles tiles(call.shape, memory);
  const TileRange keys = tile_range(key_tile, call.shape.tokens);
  const int64_t heads = call.heads_per_group();
  tiles.clear_key_gradients(keys.count);
  tiles.load_keys(call, keys, batch, group);
  for (int64_t head = group * heads; head < (group + 1) * heads; ++head) {
    for (int64_t tile = key_tile; tile < call.tiles(); ++tile) {
      const Visibility visible = visibility(call, batch, tile);
      if (key_tile < visible.first_key_tile()) continue;
      tiles.load_queries(call, visible.queries, batch, head);
      for_key_blocks(visible, key_tile, [&](int64_t first, int64_t count, int64_t vector, bool masked) {
        tiles.recompute(visible, keys.first, first, count, vector, masked);
        tiles.add_key_gradients(first - keys.first, count, vector, visible.queries.count);
      });
    }
  }
  tiles.store_key_gradients(call, keys, batch, group);
}

/// The query gradients of one tile of queries of one head, in the order of backward_group.
template <class T>
void backward_query_tile(const AttentionCall<T>& call, int64_t batch, int64_t head, int64_t tile,
                         char* memory) {
  BackwardTiles tiles(call.shape, memory);
  const int64_t group = head / call.heads_per_group();
  const Visibility visible = visibility(call, batch, tile);
  tiles.load_queries(call, visible.queries, batch, head);
  tiles.clear_query_gradients();
  for (int64_t key_tile = visible.first_key_tile(); key_tile <= tile; ++key_tile) {
    const TileRange keys = tile_range(key_tile, call.shape.tokens);
    tiles.load_keys(call, keys, batch, group);
    for_key_blocks(visible, key_tile, [&](int64_t first, int64_t count, int64_t vector, bool masked) {
      tiles.recompute(visible, keys.first, first, count, vector, masked);
      tiles.add_query_gradients(keys.first, first, count, vector);
    });
  }
  tiles.store_query_gradients(call, visible.queries, batch, head);
}

/// Whether whole key heads keep the threads busy: five products in a few large pieces against seven (scores
/// and their gradients twice) in many small ones. Either way every sum has the same order, so the same bits.
bool by_groups(int64_t groups, int threads) {
  const int64_t rounds = (groups + threads - 1) / threads;
  return 5 * rounds * threads <= 7 * groups;
}

}  // namespace

size_t attention_backward_bytes(const math::AttentionShape& shape) {
  return BackwardTiles::bytes(shape);
}

template <class T>
void run_attention_backward(const AttentionCall<T>& call) {
  const auto bytes = static_cast<int64_t>(attention_backward_bytes(call.shape));
  const auto memory = [&] { return call.workspace + thread_index() * bytes; };
  const int64_t kv_heads = call.shape.kv_heads;
  const int64_t groups = call.shape.batch * kv_heads;
  if (by_groups(groups, call.threads)) {
    parallel_blocks(
        groups, [&](int64_t block) { backward_group(call, block / kv_heads, block % kv_heads, memory()); });
    return;
  }
  // The first keys are seen by most queries, the last queries see most keys: they come first.
  parallel_uneven_blocks(groups * call.tiles(), [&](int64_t block) {
    const int64_t group = block % groups;
    backward_key_tile(call, group / kv_heads, group % kv_heads, block / groups, memory());
  });
  const int64_t heads = call.shape.batch * call.shape.heads;
  parallel_uneven_blocks(heads * call.tiles(), [&](int64_t block) {
    const int64_t head = block % heads;
    backward_query_tile(call, head / call.shape.heads, head % call.shape.heads,
                        call.tiles() - 1 - block / heads, memory());
  });
}

template void run_attention_backward<float>(const AttentionCall<float>&);
template void run_attention_backward<bfloat16>(const AttentionCall<bfloat16>&);
template void run_attention_backward<float16>(const AttentionCall<float16>&);

}  // namespace penstock::cpu
