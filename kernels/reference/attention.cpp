#include "kernels/reference/attention.h"

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cpu/stream.h"
#include "kernels/device/error.h"
#include "kernels/math/attention_check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

using cpu::CpuStream;
using math::AttentionShape;

/// Positions of one query head's values: channel 0 of a token (within its sequence) in qkv and out.
struct Head {
  const AttentionShape& shape;
  int64_t batch;
  int64_t head;

  int64_t row() const { return (shape.heads + 2 * shape.kv_heads) * shape.head_dim; }
  int64_t token(int64_t t) const { return batch * shape.tokens + t; }
  int64_t group() const { return head / (shape.heads / shape.kv_heads); }
  int64_t query(int64_t t) const { return token(t) * row() + head * shape.head_dim; }
  int64_t key(int64_t t) const { return token(t) * row() + (shape.heads + group()) * shape.head_dim; }
  int64_t value(int64_t t) const { return key(t) + shape.kv_heads * shape.head_dim; }
  int64_t out(int64_t t) const { return (token(t) * shape.heads + head) * shape.head_dim; }
  int64_t lse(int64_t t) const { return (batch * shape.heads + head) * shape.tokens + t; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(shape.head_dim)); }
  int64_t start(const Tensor& starts, int64_t t) const {
    return starts ? starts.as<const int32_t>()[token(t)] : 0;
  }
};

double dot(const Tensor& a, int64_t a_begin, const Tensor& b, int64_t b_begin, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += load(a, a_begin + i) * load(b, b_begin + i);
  return sum;
}

void forward_head(const Head& at, const Tensor& qkv, const Tensor& starts, const Tensor& out,
                  const Tensor& lse) {
  const int64_t d = at.shape.head_dim;
  for (int64_t q = 0; q < at.shape.tokens; ++q) {
    const int64_t start = at.start(starts, q);
    std::vector<double> scores;
    double largest = -INFINITY;
    for (int64_t k = start; k <= q; ++k) {
      scores.push_back(dot(qkv, at.query(q), qkv, at.key(k), d) * at.scale());
      largest = std::max(largest, scores.back());
    }
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - largest);
    const double log_sum = largest + std::log(sum);
    for (int64_t c = 0; c < d; ++c) {
      double value = 0;
      for (int64_t k = start; k <= q; ++k) {
        value += std::exp(scores[static_cast<size_t>(k - start)] - log_sum) * load(qkv, at.value(k) + c);
      }
      store(out, at.out(q) + c, value);
    }
    store(lse, at.lse(q), log_sum);
  }
}

/// Adds one query head's share to the gradient of qkv, in double.
void backward_head(const Head& at, const Tensor& dout, const Tensor& qkv, const Tensor& starts,
                   const Tensor& out, const Tensor& lse, std::vector<double>& dqkv) {
  const int64_t d = at.shape.head_dim;
  const auto gradient = [&](int64_t i) -> double& { return dqkv[static_cast<size_t>(i)]; };
  for (int64_t q = 0; q < at.shape.tokens; ++q) {
    const double delta = dot(dout, at.out(q), out, at.out(q), d);
    for (int64_t k = at.start(starts, q); k <= q; ++k) {
      const double score = dot(qkv, at.query(q), qkv, at.key(k), d) * at.scale();
      const double p = std::exp(score - load(lse, at.lse(q)));
      const double dscore = p * (dot(dout, at.out(q), qkv, at.value(k), d) - delta) * at.scale();
      for (int64_t c = 0; c < d; ++c) {
        gradient(at.value(k) + c) += p * load(dout, at.out(q) + c);
        gradient(at.query(q) + c) += dscore * load(qkv, at.key(k) + c);
        gradient(at.key(k) + c) += dscore * load(qkv, at.query(q) + c);
      }
    }
  }
}

class ReferenceAttentionPlan final : public math::AttentionPlan {
 public:
  explicit ReferenceAttentionPlan(const AttentionShape& shape) : shape_(shape) {}

  const AttentionShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return 0; }

  void forward(Stream& stream, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor workspace) override {
    math::check_attention_forward(shape_, workspace_bytes(), qkv, starts, out, lse, workspace);
    CpuStream::of(stream).enqueue("reference attention forward", [=, shape = shape_] {
      for (int64_t b = 0; b < shape.batch; ++b) {
        for (int64_t h = 0; h < shape.heads; ++h) forward_head({shape, b, h}, qkv, starts, out, lse);
      }
    });
  }

  void backward(Stream& stream, Tensor dout, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor dqkv,
                Tensor workspace) override {
    math::check_attention_backward(shape_, workspace_bytes(), dout, qkv, starts, out, lse, dqkv, workspace);
    CpuStream::of(stream).enqueue("reference attention backward", [=, shape = shape_] {
      std::vector<double> sums(static_cast<size_t>(dqkv.elements()));
      for (int64_t b = 0; b < shape.batch; ++b) {
        for (int64_t h = 0; h < shape.heads; ++h) {
          backward_head({shape, b, h}, dout, qkv, starts, out, lse, sums);
        }
      }
      for (size_t i = 0; i < sums.size(); ++i) store(dqkv, static_cast<int64_t>(i), sums[i]);
    });
  }

 private:
  AttentionShape shape_;
};

class ReferenceAttention final : public math::Attention {
 public:
  math::Support supports(const AttentionShape& shape) const override {
    if (shape.dtype != DType::fp32 && shape.dtype != DType::bf16 && shape.dtype != DType::fp16 &&
        shape.dtype != DType::fp64) {
      return math::Support::no("the reference attention takes fp32, bf16, fp16 and fp64");
    }
    return math::check_attention_shape(shape);
  }

  std::unique_ptr<math::AttentionPlan> plan(const AttentionShape& shape) override {
    if (const math::Support support = supports(shape); !support) throw DeviceError(support.reason);
    return std::make_unique<ReferenceAttentionPlan>(shape);
  }
};

}  // namespace

std::unique_ptr<math::Attention> make_attention(Device& /*device*/) {
  return std::make_unique<ReferenceAttention>();
}

}  // namespace penstock::reference
