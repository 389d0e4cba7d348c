#include "kernels/cpu/cached_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/device/error.h"
#include "kernels/math/cached_attention_check.h"

namespace penstock::cpu {
namespace {

using math::CachedAttentionShape;

/// Keys that a row passes at once.
constexpr int64_t key_block = 64;

template <class T>
struct CachedCall {
  CachedAttentionShape shape;
  const T* qkv = nullptr;
  const int32_t* slots = nullptr;
  const int32_t* positions = nullptr;
  T* keys = nullptr;
  T* values = nullptr;
  T* out = nullptr;
  char* workspace = nullptr;

  int64_t heads_per_group() const { return shape.heads / shape.kv_heads; }
  const T* query(int64_t row, int64_t head) const {
    return qkv + row * shape.row_elements() + head * shape.head_dim;
  }
  const T* key(int64_t row, int64_t group) const { return query(row, shape.heads + group); }
  const T* value(int64_t row, int64_t group) const { return key(row, shape.kv_heads + group); }
  T* out_at(int64_t row, int64_t head) const { return out + (row * shape.heads + head) * shape.head_dim; }
  /// Channel 0 of position 0, in keys and values.
  int64_t cached(int64_t slot, int64_t group) const {
    return (slot * shape.kv_heads + group) * shape.positions * shape.head_dim;
  }
};

/// The keys and values of a row, to their place.
template <class T>
void keep(const CachedCall<T>& call, int64_t row) {
  const int64_t d = call.shape.head_dim;
  for (int64_t group = 0; group < call.shape.kv_heads; ++group) {
    const int64_t to = call.cached(call.slots[row], group) + call.positions[row] * d;
    std::copy(call.key(row, group), call.key(row, group) + d, call.keys + to);
    std::copy(call.value(row, group), call.value(row, group) + d, call.values + to);
  }
}

/// Rows of a tile from `row` on if they are consecutive tokens of one text that begin where a tile begins;
/// else 0.
template <class T>
int64_t whole_tile(const CachedCall<T>& call, int64_t row) {
  if (call.shape.rows - row < attention_tile || call.slots[row] < 0) return 0;
  const int32_t first = call.positions[row];
  if (first % attention_tile != 0) return 0;
  int64_t count = 1;
  while (count < attention_tile && call.slots[row + count] == call.slots[row] &&
         call.positions[row + count] == first + count)
    ++count;
  // Texts that go on token by token have one row each: such a row is the same whatever stands beside it.
  if (count == 1) return 0;
  for (int64_t rest = count; rest < attention_tile; ++rest) {
    if (call.slots[row + rest] >= 0) return 0;
  }
  return count;
}

template <class T>
void attend_tile(const CachedCall<T>& call, int64_t row, int64_t count, int64_t head, char* memory) {
  const int64_t d = call.shape.head_dim;
  const int64_t first = call.cached(call.slots[row], head / call.heads_per_group());
  const ForwardTile<T> at{.query = call.query(row, head),
                          .query_row = call.shape.row_elements(),
                          .key = call.keys + first,
                          .value = call.values + first,
                          .key_row = d,
                          .out = call.out_at(row, head),
                          .out_row = call.shape.heads * d,
                          .tokens = call.positions[row] + count,
                          .head_dim = d};
  forward_tile(at, call.positions[row] / attention_tile, memory);
  for (int64_t rest = count; rest < attention_tile; ++rest)
    std::fill(call.out_at(row + rest, head), call.out_at(row + rest, head) + d, T(0.0F));
}

/// Has a row read from memory while other rows are at work: a text's keys are too few for the processor to
/// see by itself what comes next.
template <class T>
void ask_for(const T* row, int64_t elements) {
  constexpr int64_t line = 64 / sizeof(T);
  for (int64_t i = 0; i < elements; i += line) __builtin_prefetch(row + i, 0, 2);
}

/// Scores of a block of keys, `width` elements to a row: of one query, which is scaled. The block's values
/// lie at `next`.
template <class T>
void score(const float* query, const T* keys, int64_t count, int64_t width, const T* next, float* scores) {
  constexpr int64_t at_once = 4;
  for (int64_t k = 0; k < count; k += at_once) {
    const int64_t last = count - 1 - k;
    ask_for(next + k * width, at_once * width);
    Lanes sums[at_once] = {Lanes::zero(), Lanes::zero(), Lanes::zero(), Lanes::zero()};
    for (int64_t c = 0; c < width; c += lane_count) {
      const Lanes part = Lanes::load(query + c);
#pragma GCC unroll 4
      for (int64_t i = 0; i < at_once; ++i)
        sums[i] = fused(part, Lanes::load(keys + (k + std::min(i, last)) * width + c), sums[i]);
    }
    const std::array<float, at_once> made = Lanes::sums(sums[0], sums[1], sums[2], sums[3]);
    std::copy_n(made.begin(), std::min(at_once, last + 1), scores + k);
  }
}

/// A query's largest score and its sum of exponentials so far.
struct RowState {
  float largest = -INFINITY;
  float sum = 0;
};

/// One step of the online softmax (Milakov and Gimelshein, 2018): scores (key_block, −∞ beyond the keys)
/// become exponentials; returns what the output is to be multiplied by.
float exponentials(float* scores, RowState& state) {
  const float most = std::max(state.largest, largest(scores, key_block));
  const float factor = vector_exp(state.largest - most);
  state.largest = most;
#pragma omp simd
  for (int64_t k = 0; k < key_block; ++k) scores[k] = vector_exp(scores[k] - most);
  state.sum = state.sum * factor + ordered_sum(key_block, [&](int64_t k) { return scores[k]; });
  return factor;
}

/// output (16 · vectors) = output · factor + Σ weights[k] · values[k], `width` elements to a row. The keys
/// that are needed afterwards lie at `next`.
template <int vectors, class T>
void gather_vectors(const float* weights, const T* values, int64_t count, int64_t width, float factor,
                    const T* next, float* output) {
  Lanes sums[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v)
    sums[v] = fused(Lanes::load(output + v * lane_count), Lanes::broadcast(factor), Lanes::zero());
  for (int64_t k = 0; k < count; ++k) {
    ask_for(next + k * width, vectors * lane_count);
    const Lanes weight = Lanes::broadcast(weights[k]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      sums[v] = fused(weight, Lanes::load(values + k * width + v * lane_count), sums[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) sums[v].store(output + v * lane_count);
}

/// As gather_vectors(), for all channels: four vectors at once, whose sums do not wait for each other.
template <class T>
void gather(const float* weights, const T* values, int64_t count, int64_t width, float factor, const T* next,
            float* output) {
  int64_t c = 0;
  for (; c + 4 * lane_count <= width; c += 4 * lane_count)
    gather_vectors<4>(weights, values + c, count, width, factor, next + c, output + c);
  for (; c < width; c += lane_count)
    gather_vectors<1>(weights, values + c, count, width, factor, next + c, output + c);
}

int64_t row_floats(const CachedAttentionShape& shape) {
  const int64_t per_group = shape.heads / shape.kv_heads;
  return padded_channels(shape.head_dim) * (2 * per_group + 2 * key_block) + key_block;
}

/// All queries of a row that share a key head. Its text's next key head, if there is one, is `next_group`.
template <class T>
void attend_row(const CachedCall<T>& call, int64_t row, int64_t group, int64_t next_group, char* memory) {
  const int64_t d = call.shape.head_dim;
  const int64_t width = padded_channels(d);
  const int64_t queries = call.heads_per_group();
  if (call.slots[row] < 0) {
    std::fill(call.out_at(row, group * queries), call.out_at(row, (group + 1) * queries), T(0.0F));
    return;
  }
  TileScratch scratch(memory);
  float* const query = scratch.take(queries * width);
  float* const output = scratch.take(queries * width);
  float* const key_memory = scratch.take(key_block * width);
  float* const value_memory = scratch.take(key_block * width);
  float* const scores = scratch.take(key_block);
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  convert_rows(call.query(row, group * queries), d, queries, d, scale, query, width);
  std::fill(output, output + queries * width, 0.0F);
  constexpr int64_t most_queries = 64;  // states of more are taken in turns
  const int64_t first = call.cached(call.slots[row], group);
  const int64_t following = call.cached(call.slots[row], next_group);
  const int64_t end = int64_t{call.positions[row]} + 1;
  for (int64_t begin = 0; begin < queries; begin += most_queries) {
    const int64_t last = std::min(queries, begin + most_queries);
    std::array<RowState, most_queries> states{};
    for (int64_t k = 0; k < end; k += key_block) {
      const int64_t count = std::min(key_block, end - k);
      const auto attend = [&](const auto* keys, const auto* values, const auto* next) {
        for (int64_t q = begin; q < last; ++q) {
          score(query + q * width, keys, count, width, values, scores);
          std::fill(scores + count, scores + key_block, -INFINITY);
          const float factor = exponentials(scores, states[static_cast<size_t>(q - begin)]);
          gather(scores, values, count, width, factor, next, output + q * width);
        }
      };
      const T* const keys = call.keys + first + k * d;
      const T* const values = call.values + first + k * d;
      // One query converts what it reads; several share a copy, as do channels that fill no vectors.
      if (d == width && (queries == 1 || std::is_same_v<T, float>)) {
        attend(keys, values, k + key_block < end ? keys + key_block * d : call.keys + following);
      } else {
        convert_rows(keys, d, count, d, 1.0F, key_memory, width);
        convert_rows(values, d, count, d, 1.0F, value_memory, width);
        attend(key_memory, value_memory, key_memory);
      }
    }
    for (int64_t q = begin; q < last; ++q) {
      const float factor = 1.0F / states[static_cast<size_t>(q - begin)].sum;
      T* const out = call.out_at(row, group * queries + q);
      for (int64_t c = 0; c < d; ++c) store(out[c], output[q * width + c] * factor);
    }
  }
}

/// Rows begin … end − 1, some heads of a text a piece of work.
template <class T, class Memory>
void attend_rows(const CachedCall<T>& call, int64_t begin, int64_t end, const Memory& memory) {
  const int64_t groups = call.shape.kv_heads;
  const int64_t grain = std::clamp<int64_t>((end - begin) * groups / 16, 1, std::min<int64_t>(groups, 4));
  const int64_t pieces = (groups + grain - 1) / grain;
  parallel_uneven_blocks((end - begin) * pieces, [&](int64_t block) {
    const int64_t first = block % pieces * grain;
    const int64_t last = std::min(groups, first + grain) - 1;
    for (int64_t group = first; group <= last; ++group)
      attend_row(call, begin + block / pieces, group, std::min(group + 1, last), memory());
  });
}

size_t thread_bytes(const CachedAttentionShape& shape) {
  const size_t row = static_cast<size_t>(row_floats(shape)) * sizeof(float);
  return shape.rows < attention_tile ? row : std::max(row, attention_forward_bytes(shape.head_dim));
}

template <class T>
void run(const CachedCall<T>& call) {
  const CachedAttentionShape& shape = call.shape;
  parallel_blocks(shape.rows, [&](int64_t row) {
    if (call.slots[row] >= 0) keep(call, row);
  });
  const auto memory = [&] {
    return call.workspace + static_cast<size_t>(thread_index()) * thread_bytes(shape);
  };
  for (int64_t row = 0; row < shape.rows;) {
    if (const int64_t count = whole_tile(call, row); count > 0) {
      // All tiles that follow, the last ones, which see most keys, first.
      int64_t tiles = 1;
      int64_t rest = count;
      while (rest == attention_tile) {
        const int64_t next = whole_tile(call, row + tiles * attention_tile);
        if (next == 0) break;
        rest = next;
        ++tiles;
      }
      parallel_uneven_blocks(tiles * shape.heads, [&](int64_t block) {
        const int64_t tile = tiles - 1 - block / shape.heads;
        attend_tile(call, row + tile * attention_tile, tile + 1 == tiles ? rest : attention_tile,
                    block % shape.heads, memory());
      });
      row += tiles * attention_tile;
      continue;
    }
    int64_t end = row + 1;
    while (end < shape.rows && whole_tile(call, end) == 0) ++end;
    attend_rows(call, row, end, memory);
    row = end;
  }
}

class CpuCachedPlan final : public math::CachedAttentionPlan {
 public:
  CpuCachedPlan(const CachedAttentionShape& shape, int threads) : shape_(shape), threads_(threads) {}
  const CachedAttentionShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return thread_bytes(shape_) * static_cast<size_t>(threads_); }

  void forward(Stream& stream, Tensor qkv, Tensor slots, Tensor positions, Tensor keys, Tensor values,
               Tensor out, Tensor workspace) override {
    math::check_cached_attention(shape_, workspace_bytes(), qkv, slots, positions, keys, values, out,
                                 workspace);
    with_element(shape_.dtype, [&]<class T>(T) {
      const CachedCall<T> call{.shape = shape_,
                               .qkv = qkv.as<const T>(),
                               .slots = slots.as<const int32_t>(),
                               .positions = positions.as<const int32_t>(),
                               .keys = keys.as<T>(),
                               .values = values.as<T>(),
                               .out = out.as<T>(),
                               .workspace = workspace.as<char>()};
      CpuStream::of(stream).enqueue("cached attention", [call] { run(call); });
    });
  }

 private:
  CachedAttentionShape shape_;
  int threads_;
};

class CpuCachedAttention final : public math::CachedAttention {
 public:
  explicit CpuCachedAttention(int threads) : threads_(threads) {}

  math::Support supports(const CachedAttentionShape& shape) const override {
    if (shape.dtype != DType::fp32 && shape.dtype != DType::bf16 && shape.dtype != DType::fp16) {
      return math::Support::no("the CPU's cached attention takes fp32, bf16 and fp16");
    }
    return math::check_cached_attention_shape(shape);
  }

  std::unique_ptr<math::CachedAttentionPlan> plan(const CachedAttentionShape& shape) override {
    if (const math::Support support = supports(shape); !support) throw DeviceError(support.reason);
    return std::make_unique<CpuCachedPlan>(shape, threads_);
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<math::CachedAttention> make_cached_attention(Device& device) {
  return std::make_unique<CpuCachedAttention>(device.options().threads);
}

}  // namespace penstock::cpu
