#include "kernels/reference/norm.h"

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cpu/stream.h"
#include "kernels/math/norm_check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

using cpu::CpuStream;

/// The rows of one norm: `stride` between rows of x, `channels` values at `offset` in each.
struct Rows {
  int64_t stride;
  int64_t offset;
  int64_t channels;
  int64_t at(int64_t row, int64_t c) const { return row * stride + offset + c; }
};

/// dx and the terms of dweight and dbias of one row. mean is 0 for the RMS norm, whose gradient has no mean
/// term.
void backward_row(const Tensor& dy, const Tensor& x, const Rows& rows, int64_t row, const Tensor& weight,
                  double mean, double rstd, bool centred, const Tensor& dresidual, const Tensor& dx,
                  std::vector<double>& dweight, std::vector<double>& dbias) {
  const auto n = static_cast<double>(rows.channels);
  double sum = 0;
  double dot = 0;
  for (int64_t c = 0; c < rows.channels; ++c) {
    const double g = load(dy, rows.at(row, c)) * load(weight, c);
    sum += g;
    dot += g * (load(x, rows.at(row, c)) - mean) * rstd;
  }
  for (int64_t c = 0; c < rows.channels; ++c) {
    const int64_t i = rows.at(row, c);
    const double gradient = load(dy, i);
    const double normal = (load(x, i) - mean) * rstd;
    dweight[static_cast<size_t>(c)] += gradient * normal;
    dbias[static_cast<size_t>(c)] += gradient;
    double value = rstd * (gradient * load(weight, c) - (centred ? sum / n : 0.0) - normal * dot / n);
    if (dresidual) value += load(dresidual, i);
    store(dx, i, value);
  }
}

void accumulate(const Tensor& gradient, const std::vector<double>& sums) {
  for (size_t c = 0; c < sums.size(); ++c) {
    const auto i = static_cast<int64_t>(c);
    store(gradient, i, load(gradient, i) + sums[c]);
  }
}

double rms(const Tensor& x, const Rows& rows, int64_t row) {
  double squares = 0;
  for (int64_t c = 0; c < rows.channels; ++c) {
    squares += load(x, rows.at(row, c)) * load(x, rows.at(row, c));
  }
  return squares / static_cast<double>(rows.channels);
}

void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, const Tensor& y,
                const Tensor& mean, const Tensor& rstd, math::NormSizes sizes) {
  const Rows rows{sizes.channels, 0, sizes.channels};
  const auto n = static_cast<double>(sizes.channels);
  for (int64_t row = 0; row < sizes.tokens; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < sizes.channels; ++c) sum += load(x, rows.at(row, c));
    const double m = sum / n;
    double squares = 0;
    for (int64_t c = 0; c < sizes.channels; ++c) {
      squares += (load(x, rows.at(row, c)) - m) * (load(x, rows.at(row, c)) - m);
    }
    const double r = 1 / std::sqrt(squares / n + epsilon);
    for (int64_t c = 0; c < sizes.channels; ++c) {
      store(y, rows.at(row, c), (load(x, rows.at(row, c)) - m) * r * load(weight, c) + load(bias, c));
    }
    store(mean, row, m);
    store(rstd, row, r);
  }
}

class ReferenceNorm final : public math::Norm {
 public:
  math::Support supports(DType dtype, int64_t channels) const override {
    if (channels < 1) return math::Support::no("a norm needs at least 1 channel");
    if (dtype != DType::fp32 && dtype != DType::bf16 && dtype != DType::fp16 && dtype != DType::fp64) {
      return math::Support::no("the reference norms take fp32, bf16, fp16 and fp64");
    }
    return math::Support::yes();
  }

  void layer_norm_forward(Stream& stream, Tensor x, Tensor weight, Tensor bias, float epsilon, Tensor y,
                          Tensor mean, Tensor rstd) override {
    const math::NormSizes sizes = math::check_layer_norm_forward(x, weight, bias, y, mean, rstd);
    CpuStream::of(stream).enqueue("reference layer_norm_forward",
                                  [=] { layer_norm(x, weight, bias, epsilon, y, mean, rstd, sizes); });
  }

  void layer_norm_backward(Stream& stream, Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor rstd,
                           Tensor dresidual, Tensor dx, Tensor dweight, Tensor dbias) override {
    const math::NormSizes sizes =
        math::check_layer_norm_backward(dy, x, weight, mean, rstd, dresidual, dx, dweight, dbias);
    CpuStream::of(stream).enqueue("reference layer_norm_backward", [=] {
      const Rows rows{sizes.channels, 0, sizes.channels};
      std::vector<double> weights(static_cast<size_t>(sizes.channels));
      std::vector<double> biases(weights.size());
      for (int64_t row = 0; row < sizes.tokens; ++row) {
        backward_row(dy, x, rows, row, weight, load(mean, row), load(rstd, row), true, dresidual, dx, weights,
                     biases);
      }
      accumulate(dweight, weights);
      accumulate(dbias, biases);
    });
  }

  void rms_norm_forward(Stream& stream, Tensor x, Tensor weight, float epsilon, Tensor y,
                        Tensor rstd) override {
    const math::NormSizes sizes = math::check_rms_norm_forward(x, weight, y, rstd);
    CpuStream::of(stream).enqueue("reference rms_norm_forward", [=] {
      const Rows rows{sizes.channels, 0, sizes.channels};
      for (int64_t row = 0; row < sizes.tokens; ++row) {
        const double r = 1 / std::sqrt(rms(x, rows, row) + static_cast<double>(epsilon));
        for (int64_t c = 0; c < sizes.channels; ++c) {
          store(y, rows.at(row, c), load(x, rows.at(row, c)) * r * load(weight, c));
        }
        store(rstd, row, r);
      }
    });
  }

  void rms_norm_backward(Stream& stream, Tensor dy, Tensor x, Tensor weight, Tensor rstd, Tensor dresidual,
                         Tensor dx, Tensor dweight) override {
    const math::NormSizes sizes = math::check_rms_norm_backward(dy, x, weight, rstd, dresidual, dx, dweight);
    CpuStream::of(stream).enqueue("reference rms_norm_backward", [=] {
      const Rows rows{sizes.channels, 0, sizes.channels};
      std::vector<double> weights(static_cast<size_t>(sizes.channels));
      std::vector<double> unused(weights.size());
      for (int64_t row = 0; row < sizes.tokens; ++row) {
        backward_row(dy, x, rows, row, weight, 0, load(rstd, row), false, dresidual, dx, weights, unused);
      }
      accumulate(dweight, weights);
    });
  }

  void head_norm_forward(Stream& stream, Tensor qkv, Tensor weight_q, Tensor weight_k, float epsilon,
                         int64_t heads, int64_t kv_heads, Tensor out, Tensor rstd) override {
    const math::HeadNormSizes sizes =
        math::check_head_norm_forward(qkv, weight_q, weight_k, heads, kv_heads, out, rstd);
    CpuStream::of(stream).enqueue("reference head_norm_forward", [=] {
      const int64_t normed = heads + kv_heads;
      for (int64_t token = 0; token < sizes.tokens; ++token) {
        for (int64_t head = 0; head < normed + kv_heads; ++head) {
          const Rows rows{sizes.row(), head * sizes.head_dim, sizes.head_dim};
          const double r = 1 / std::sqrt(rms(qkv, rows, token) + static_cast<double>(epsilon));
          const Tensor& weight = head < heads ? weight_q : weight_k;
          for (int64_t c = 0; c < sizes.head_dim; ++c) {
            const int64_t i = rows.at(token, c);
            store(out, i, head < normed ? load(qkv, i) * r * load(weight, c) : load(qkv, i));
          }
          if (head < normed) store(rstd, token * normed + head, r);
        }
      }
    });
  }

  void head_norm_backward(Stream& stream, Tensor dqkv, Tensor qkv, Tensor weight_q, Tensor weight_k,
                          Tensor rstd, int64_t heads, int64_t kv_heads, Tensor dweight_q,
                          Tensor dweight_k) override {
    const math::HeadNormSizes sizes = math::check_head_norm_backward(dqkv, qkv, weight_q, weight_k, rstd,
                                                                     heads, kv_heads, dweight_q, dweight_k);
    CpuStream::of(stream).enqueue("reference head_norm_backward", [=] {
      const int64_t normed = heads + kv_heads;
      std::vector<double> sums_q(static_cast<size_t>(sizes.head_dim));
      std::vector<double> sums_k(sums_q.size());
      std::vector<double> unused(sums_q.size());
      for (int64_t token = 0; token < sizes.tokens; ++token) {
        for (int64_t head = 0; head < normed; ++head) {
          const Rows rows{sizes.row(), head * sizes.head_dim, sizes.head_dim};
          backward_row(dqkv, qkv, rows, token, head < heads ? weight_q : weight_k, 0,
                       load(rstd, token * normed + head), false, {}, dqkv, head < heads ? sums_q : sums_k,
                       unused);
        }
      }
      accumulate(dweight_q, sums_q);
      accumulate(dweight_k, sums_k);
    });
  }
};

}  // namespace

std::unique_ptr<math::Norm> make_norm(Device& /*device*/) {
  return std::make_unique<ReferenceNorm>();
}

}  // namespace penstock::reference
