#include "kernels/reference/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/stream.h"
#include "kernels/device/error.h"
#include "kernels/math/cached_attention_check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

using math::CachedAttentionShape;

int32_t entry(const Tensor& x, int64_t row) {
  return x.as<const int32_t>()[row];
}

/// Channel 0 of a position in the cache.
int64_t cached(const CachedAttentionShape& shape, int64_t slot, int64_t group, int64_t position) {
  return ((slot * shape.kv_heads + group) * shape.positions + position) * shape.head_dim;
}

void keep(const CachedAttentionShape& shape, int64_t row, const Tensor& qkv, int64_t slot, int64_t position,
          const Tensor& keys, const Tensor& values) {
  for (int64_t group = 0; group < shape.kv_heads; ++group) {
    const int64_t to = cached(shape, slot, group, position);
    const int64_t key = row * shape.row_elements() + (shape.heads + group) * shape.head_dim;
    for (int64_t c = 0; c < shape.head_dim; ++c) {
      store(keys, to + c, load(qkv, key + c));
      store(values, to + c, load(qkv, key + shape.kv_heads * shape.head_dim + c));
    }
  }
}

void attend(const CachedAttentionShape& shape, int64_t row, int64_t head, const Tensor& qkv, int64_t slot,
            int64_t position, const Tensor& keys, const Tensor& values, const Tensor& out) {
  const int64_t d = shape.head_dim;
  const int64_t group = head / (shape.heads / shape.kv_heads);
  const int64_t first = cached(shape, slot, group, 0);
  const int64_t query = row * shape.row_elements() + head * d;
  std::vector<double> scores;
  for (int64_t k = 0; k <= position; ++k) {
    double score = 0;
    for (int64_t c = 0; c < d; ++c) score += load(qkv, query + c) * load(keys, first + k * d + c);
    scores.push_back(score / std::sqrt(static_cast<double>(d)));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (int64_t c = 0; c < d; ++c) {
    double value = 0;
    for (int64_t k = 0; k <= position; ++k)
      value += scores[static_cast<size_t>(k)] / sum * load(values, first + k * d + c);
    store(out, (row * shape.heads + head) * d + c, value);
  }
}

class ReferencePlan final : public math::CachedAttentionPlan {
 public:
  explicit ReferencePlan(const CachedAttentionShape& shape) : shape_(shape) {}
  const CachedAttentionShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return 0; }

  void forward(Stream& stream, Tensor qkv, Tensor slots, Tensor positions, Tensor keys, Tensor values,
               Tensor out, Tensor workspace) override {
    math::check_cached_attention(shape_, 0, qkv, slots, positions, keys, values, out, workspace);
    cpu::CpuStream::of(stream).enqueue("reference cached attention", [=, shape = shape_] {
      for (int64_t row = 0; row < shape.rows; ++row) {
        if (entry(slots, row) >= 0)
          keep(shape, row, qkv, entry(slots, row), entry(positions, row), keys, values);
      }
      for (int64_t i = 0; i < out.elements(); ++i) store(out, i, 0);
      for (int64_t row = 0; row < shape.rows; ++row) {
        for (int64_t head = 0; head < shape.heads && entry(slots, row) >= 0; ++head)
          attend(shape, row, head, qkv, entry(slots, row), entry(positions, row), keys, values, out);
      }
    });
  }

 private:
  CachedAttentionShape shape_;
};

class ReferenceCachedAttention final : public math::CachedAttention {
 public:
  math::Support supports(const CachedAttentionShape& shape) const override {
    return math::check_cached_attention_shape(shape);
  }
  std::unique_ptr<math::CachedAttentionPlan> plan(const CachedAttentionShape& shape) override {
    if (const math::Support support = supports(shape); !support) throw DeviceError(support.reason);
    return std::make_unique<ReferencePlan>(shape);
  }
};

}  // namespace

std::unique_ptr<math::CachedAttention> make_cached_attention(Device& /*device*/) {
  return std::make_unique<ReferenceCachedAttention>();
}

}  // namespace penstock::reference
