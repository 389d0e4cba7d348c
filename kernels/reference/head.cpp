#include "kernels/reference/head.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/stream.h"
#include "kernels/math/check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

using cpu::CpuStream;
using math::ArgumentCheck;
using math::HeadShape;

/// (tokens, vocab) = x · the first `vocab` rows of wᵀ.
std::vector<double> all_logits(const HeadShape& shape, int64_t tokens, const std::vector<double>& x,
                               const std::vector<double>& w) {
  std::vector<double> logits(static_cast<size_t>(tokens * shape.vocab));
  for (int64_t n = 0; n < tokens; ++n) {
    for (int64_t v = 0; v < shape.vocab; ++v) {
      double sum = 0;
      for (int64_t c = 0; c < shape.hidden; ++c) sum += x[n * shape.hidden + c] * w[v * shape.hidden + c];
      logits[n * shape.vocab + v] = sum;
    }
  }
  return logits;
}

/// log Σ exp of `count` logits.
double log_sum_exp(const double* logits, int64_t count) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t v = 0; v < count; ++v) largest = std::max(largest, logits[v]);
  double sum = 0;
  for (int64_t v = 0; v < count; ++v) sum += std::exp(logits[v] - largest);
  return largest + std::log(sum);
}

class ReferenceHead final : public math::HeadPlan {
 public:
  explicit ReferenceHead(const HeadShape& shape) : shape_(shape) {}
  const HeadShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return 0; }

  void loss(Stream& stream, Tensor x, Tensor w, Tensor targets, Tensor losses,
            Tensor /*workspace*/) override {
    check_inputs(ArgumentCheck("head loss"), x, w, targets, losses);
    CpuStream::of(stream).enqueue(
        "reference head loss", [=, shape = shape_] { pass(shape, x, w, targets, nullptr, losses, {}, {}); });
  }

  void loss_and_backward(Stream& stream, Tensor x, Tensor w, Tensor targets, const math::StepScalars* scalars,
                         Tensor losses, Tensor dx, Tensor dw, Tensor /*workspace*/) override {
    const ArgumentCheck check("head loss_and_backward");
    check_inputs(check, x, w, targets, losses);
    check.tensor("dx", dx, {shape_.tokens, shape_.hidden}, {shape_.dtype})
        .tensor("dw", dw, {shape_.rows, shape_.hidden}, {DType::fp32, DType::fp64})
        .that(scalars != nullptr, "scalars are absent");
    CpuStream::of(stream).enqueue("reference head loss_and_backward", [=, shape = shape_] {
      pass(shape, x, w, targets, scalars, losses, dx, dw);
    });
  }

  void logits(Stream& stream, Tensor x, Tensor w, Tensor logits, Tensor /*workspace*/) override {
    const int64_t tokens = logits.shape[0];
    ArgumentCheck("head logits")
        .tensor("x", x, {tokens, shape_.hidden}, {shape_.dtype})
        .tensor("w", w, {shape_.rows, shape_.hidden}, {shape_.dtype})
        .tensor("logits", logits, {tokens, shape_.vocab}, {DType::fp32, DType::fp64});
    CpuStream::of(stream).enqueue("reference head logits", [=, shape = shape_] {
      const std::vector<double> values = all_logits(shape, tokens, load_all(x), load_all(w));
      for (size_t i = 0; i < values.size(); ++i) store(logits, static_cast<int64_t>(i), values[i]);
    });
  }

 private:
  void check_inputs(const ArgumentCheck& check, const Tensor& x, const Tensor& w, const Tensor& targets,
                    const Tensor& losses) const {
    check.tensor("x", x, {shape_.tokens, shape_.hidden}, {shape_.dtype})
        .tensor("w", w, {shape_.rows, shape_.hidden}, {shape_.dtype})
        .tensor("targets", targets, {shape_.tokens}, {DType::i32})
        .tensor("losses", losses, {shape_.tokens}, {DType::fp32, DType::fp64});
  }

  static void pass(const HeadShape& shape, const Tensor& x, const Tensor& w, const Tensor& targets,
                   const math::StepScalars* scalars, const Tensor& losses, const Tensor& dx,
                   const Tensor& dw) {
    const auto [N, C, rows, V, T] = shape;
    const std::vector<double> xs = load_all(x);
    const std::vector<double> ws = load_all(w);
    std::vector<double> logits = all_logits(shape, N, xs, ws);
    for (int64_t n = 0; n < N; ++n) {
      double* row = &logits[n * V];
      const auto target = targets.as<const int32_t>()[n];
      const double lse = log_sum_exp(row, V);
      store(losses, n, target < 0 ? 0.0 : lse - row[target]);
      if (!dx) continue;
      for (int64_t v = 0; v < V; ++v) {
        const double onehot = v == target ? 1.0 : 0.0;
        const double gradient = (std::exp(row[v] - lse) - onehot) * scalars->gradient_scale;
        row[v] = target < 0 ? 0.0 : rounded(T, gradient);
      }
    }
    if (!dx) return;
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t c = 0; c < C; ++c) {
        double sum = 0;
        for (int64_t v = 0; v < V; ++v) sum += logits[n * V + v] * ws[v * C + c];
        store(dx, n * C + c, sum);
      }
    }
    for (int64_t v = 0; v < V; ++v) {
      for (int64_t c = 0; c < C; ++c) {
        double sum = load(dw, v * C + c);
        for (int64_t n = 0; n < N; ++n) sum += logits[n * V + v] * xs[n * C + c];
        store(dw, v * C + c, sum);
      }
    }
  }

  HeadShape shape_;
};

class ReferenceHeads final : public math::Head {
 public:
  math::Support supports(const HeadShape& /*shape*/) const override { return math::Support::yes(); }
  std::unique_ptr<math::HeadPlan> plan(const HeadShape& shape) override {
    return std::make_unique<ReferenceHead>(shape);
  }
};

}  // namespace

std::unique_ptr<math::Head> make_head(Device& /*device*/) {
  return std::make_unique<ReferenceHeads>();
}

}  // namespace penstock::reference
