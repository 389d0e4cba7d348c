#include "kernels/cpu/norm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"
#include "kernels/math/norm_check.h"

namespace penstock::cpu {
namespace {

/// Columns of one piece of a weight gradient, and tokens summed up before they are added to it.
constexpr int64_t column_block = 128;
constexpr int64_t token_block = 64;
/// Elements of a tensor that stay in the caches from a pass over rows to the next over columns.
constexpr int64_t cached_elements = 65536;

/// Rows of one piece: enough work to be worth a thread.
int64_t row_grain(int64_t channels) {
  return std::max<int64_t>(1, 8192 / channels);
}

/// 1 / sqrt(mean of squares + epsilon) of n values.
template <class T>
float inverse_rms(const T* x, int64_t n, float epsilon) {
  const float squares = ordered_sum(n, [x](int64_t c) {
    const auto value = static_cast<float>(x[c]);
    return value * value;
  });
  return 1.0F / std::sqrt(squares / static_cast<float>(n) + epsilon);
}

/// y (n) = x · rstd · weight.
template <class T>
void scale_row(const T* x, const float* weight, int64_t n, float rstd, T* y) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) store(y[c], static_cast<float>(x[c]) * rstd * weight[c]);
}

template <class T>
void layer_norm_row(const T* x, const float* weight, const float* bias, int64_t n, float epsilon, T* y,
                    float* mean, float* rstd) {
  const auto count = static_cast<float>(n);
  const float m = ordered_sum(n, [x](int64_t c) { return static_cast<float>(x[c]); }) / count;
  const float squares = ordered_sum(n, [x, m](int64_t c) {
    const float deviation = static_cast<float>(x[c]) - m;
    return deviation * deviation;
  });
  const float r = 1.0F / std::sqrt(squares / count + epsilon);
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) {
    store(y[c], std::fma((static_cast<float>(x[c]) - m) * r, weight[c], bias[c]));
  }
  *mean = m;
  *rstd = r;
}

/// dx (n) = dresidual (n; may be absent) + rstd (g − mean of g − x̂ · mean of g x̂), g = dy · weight,
/// x̂ = (x − mean) rstd. The RMS norm (not `centred`) has no mean, and no mean of g.
template <class T, bool centred>
void backward_row(const T* dy, const T* x, const float* weight, int64_t n, float mean, float rstd,
                  const T* dresidual, T* dx) {
  const auto count = static_cast<float>(n);
  const auto gradient = [=](int64_t c) { return static_cast<float>(dy[c]) * weight[c]; };
  const auto normal = [=](int64_t c) {
    const auto value = static_cast<float>(x[c]);
    return centred ? (value - mean) * rstd : value * rstd;
  };
  const float sum = centred ? ordered_sum(n, gradient) / count : 0.0F;
  const float dot = ordered_sum(n, [=](int64_t c) { return gradient(c) * normal(c); }) / count;
  const auto value = [=](int64_t c) { return rstd * std::fma(-normal(c), dot, gradient(c) - sum); };
  // The linter does not look into statements under an OpenMP pragma and takes the branches for equal.
  if (dresidual == nullptr) {  // NOLINT(bugprone-branch-clone)
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) store(dx[c], value(c));
  } else {
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) store(dx[c], static_cast<float>(dresidual[c]) + value(c));
  }
}

/// dweight (C) += Σ dy x̂, dbias (C; absent for the RMS norm) += Σ dy over tokens [begin, end), in blocks of
/// token_block, ascending.
template <class T, bool centred>
void add_parameter_gradients(const T* dy, const T* x, const float* mean, const float* rstd, int64_t begin,
                             int64_t end, int64_t channels, float* dweight, float* dbias) {
  parallel_ranges(channels, column_block, [=](int64_t first_column, int64_t last_column) {
    const int64_t width = last_column - first_column;
    for (int64_t first = begin; first < end; first += token_block) {
      std::array<float, column_block> weight_sums{};
      std::array<float, column_block> bias_sums{};
      float* const weight_sum = weight_sums.data();
      float* const bias_sum = bias_sums.data();
      for (int64_t token = first; token < std::min(end, first + token_block); ++token) {
        const T* const dy_row = dy + token * channels + first_column;
        const T* const x_row = x + token * channels + first_column;
        const float m = centred ? mean[token] : 0.0F;
        const float r = rstd[token];
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) {
          const auto gradient = static_cast<float>(dy_row[c]);
          const auto value = static_cast<float>(x_row[c]);
          weight_sum[c] = std::fma(gradient, (centred ? value - m : value) * r, weight_sum[c]);
          if (centred) bias_sum[c] += gradient;
        }
      }
      for (int64_t c = 0; c < width; ++c) {
        dweight[first_column + c] += weight_sum[c];
        if (centred) dbias[first_column + c] += bias_sum[c];
      }
    }
  });
}

/// dweight (D) += Σ dy x̂ over tokens (ascending blocks) and, within one, `heads` heads (ascending) that start
/// at `first_head`.
template <class T>
void add_head_gradients(const T* dy, const T* x, const float* rstd, const math::HeadNormSizes& sizes,
                        int64_t first_head, int64_t heads, float* dweight) {
  constexpr int64_t columns = 16;  // a cache line: few columns, so that D = 64 still makes four pieces
  const int64_t normed = sizes.heads + sizes.kv_heads;
  parallel_ranges(sizes.head_dim, columns, [=](int64_t begin, int64_t end) {
    const int64_t width = end - begin;
    for (int64_t first = 0; first < sizes.tokens; first += token_block) {
      std::array<float, columns> sums{};
      float* const sum = sums.data();
      for (int64_t token = first; token < std::min(sizes.tokens, first + token_block); ++token) {
        for (int64_t head = first_head; head < first_head + heads; ++head) {
          const int64_t offset = token * sizes.row() + head * sizes.head_dim + begin;
          const float r = rstd[token * normed + head];
#pragma omp simd
          for (int64_t c = 0; c < width; ++c) {
            sum[c] =
                std::fma(static_cast<float>(dy[offset + c]), static_cast<float>(x[offset + c]) * r, sum[c]);
          }
        }
      }
      for (int64_t c = 0; c < width; ++c) dweight[begin + c] += sum[c];
    }
  });
}

/// dx by rows, then the gradients of weight and bias by columns while dy and x are still in the caches.
template <class T, bool centred>
void backward(const T* dy, const T* x, const float* weight, const float* mean, const float* rstd,
              const T* dresidual, T* dx, float* dweight, float* dbias, math::NormSizes sizes) {
  const int64_t n = sizes.channels;
  const int64_t step = token_block * std::max<int64_t>(1, cached_elements / (token_block * n));
  for (int64_t first = 0; first < sizes.tokens; first += step) {
    const int64_t last = std::min(sizes.tokens, first + step);
    parallel_ranges(last - first, row_grain(n), [=](int64_t begin, int64_t end) {
      for (int64_t row = first + begin; row < first + end; ++row) {
        backward_row<T, centred>(dy + row * n, x + row * n, weight, n, centred ? mean[row] : 0.0F, rstd[row],
                                 dresidual == nullptr ? nullptr : dresidual + row * n, dx + row * n);
      }
    });
    add_parameter_gradients<T, centred>(dy, x, mean, rstd, first, last, n, dweight, dbias);
  }
}

class CpuNorm final : public math::Norm {
 public:
  math::Support supports(DType dtype, int64_t channels) const override {
    if (channels < 1) return math::Support::no("a norm needs at least 1 channel");
    if (dtype != DType::fp32 && dtype != DType::bf16 && dtype != DType::fp16) {
      return math::Support::no("the CPU norms take fp32, bf16 and fp16");
    }
    return math::Support::yes();
  }

  void layer_norm_forward(Stream& stream, Tensor x, Tensor weight, Tensor bias, float epsilon, Tensor y,
                          Tensor mean, Tensor rstd) override {
    const math::NormSizes sizes = math::check_layer_norm_forward(x, weight, bias, y, mean, rstd);
    with_element(x.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("layer_norm_forward", [=] {
        const int64_t n = sizes.channels;
        parallel_ranges(sizes.tokens, row_grain(n), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            layer_norm_row(x.as<const T>() + row * n, weight.as<const float>(), bias.as<const float>(), n,
                           epsilon, y.as<T>() + row * n, mean.as<float>() + row, rstd.as<float>() + row);
          }
        });
      });
    });
  }

  void layer_norm_backward(Stream& stream, Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor rstd,
                           Tensor dresidual, Tensor dx, Tensor dweight, Tensor dbias) override {
    const math::NormSizes sizes =
        math::check_layer_norm_backward(dy, x, weight, mean, rstd, dresidual, dx, dweight, dbias);
    with_element(x.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("layer_norm_backward", [=] {
        backward<T, true>(dy.as<const T>(), x.as<const T>(), weight.as<const float>(), mean.as<const float>(),
                          rstd.as<const float>(), dresidual.as<const T>(), dx.as<T>(), dweight.as<float>(),
                          dbias.as<float>(), sizes);
      });
    });
  }

  void rms_norm_forward(Stream& stream, Tensor x, Tensor weight, float epsilon, Tensor y,
                        Tensor rstd) override {
    const math::NormSizes sizes = math::check_rms_norm_forward(x, weight, y, rstd);
    with_element(x.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("rms_norm_forward", [=] {
        const int64_t n = sizes.channels;
        parallel_ranges(sizes.tokens, row_grain(n), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            const T* const x_row = x.as<const T>() + row * n;
            const float r = inverse_rms(x_row, n, epsilon);
            scale_row(x_row, weight.as<const float>(), n, r, y.as<T>() + row * n);
            rstd.as<float>()[row] = r;
          }
        });
      });
    });
  }

  void rms_norm_backward(Stream& stream, Tensor dy, Tensor x, Tensor weight, Tensor rstd, Tensor dresidual,
                         Tensor dx, Tensor dweight) override {
    const math::NormSizes sizes = math::check_rms_norm_backward(dy, x, weight, rstd, dresidual, dx, dweight);
    with_element(x.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("rms_norm_backward", [=] {
        backward<T, false>(dy.as<const T>(), x.as<const T>(), weight.as<const float>(), nullptr,
                           rstd.as<const float>(), dresidual.as<const T>(), dx.as<T>(), dweight.as<float>(),
                           nullptr, sizes);
      });
    });
  }

  void head_norm_forward(Stream& stream, Tensor qkv, Tensor weight_q, Tensor weight_k, float epsilon,
                         int64_t heads, int64_t kv_heads, Tensor out, Tensor rstd) override {
    const math::HeadNormSizes sizes =
        math::check_head_norm_forward(qkv, weight_q, weight_k, heads, kv_heads, out, rstd);
    with_element(qkv.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("head_norm_forward", [=] {
        const int64_t n = sizes.head_dim;
        const int64_t normed = sizes.heads + sizes.kv_heads;
        parallel_ranges(sizes.tokens, row_grain(sizes.row()), [&](int64_t begin, int64_t end) {
          for (int64_t token = begin; token < end; ++token) {
            const T* const in = qkv.as<const T>() + token * sizes.row();
            T* const normal = out.as<T>() + token * sizes.row();
            for (int64_t head = 0; head < normed; ++head) {
              const float r = inverse_rms(in + head * n, n, epsilon);
              const Tensor& weight = head < sizes.heads ? weight_q : weight_k;
              scale_row(in + head * n, weight.as<const float>(), n, r, normal + head * n);
              rstd.as<float>()[token * normed + head] = r;
            }
            std::copy(in + normed * n, in + sizes.row(), normal + normed * n);
          }
        });
      });
    });
  }

  void head_norm_backward(Stream& stream, Tensor dqkv, Tensor qkv, Tensor weight_q, Tensor weight_k,
                          Tensor rstd, int64_t heads, int64_t kv_heads, Tensor dweight_q,
                          Tensor dweight_k) override {
    const math::HeadNormSizes sizes = math::check_head_norm_backward(dqkv, qkv, weight_q, weight_k, rstd,
                                                                     heads, kv_heads, dweight_q, dweight_k);
    with_element(qkv.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("head_norm_backward", [=] {
        // The weights' gradients read dqkv before it is overwritten.
        const T* const x = qkv.as<const T>();
        const float* const r = rstd.as<const float>();
        add_head_gradients(dqkv.as<const T>(), x, r, sizes, 0, sizes.heads, dweight_q.as<float>());
        add_head_gradients(dqkv.as<const T>(), x, r, sizes, sizes.heads, sizes.kv_heads,
                           dweight_k.as<float>());
        const int64_t n = sizes.head_dim;
        const int64_t normed = sizes.heads + sizes.kv_heads;
        parallel_ranges(sizes.tokens, row_grain(sizes.row()), [&](int64_t begin, int64_t end) {
          for (int64_t token = begin; token < end; ++token) {
            for (int64_t head = 0; head < normed; ++head) {
              const int64_t offset = token * sizes.row() + head * n;
              const Tensor& weight = head < sizes.heads ? weight_q : weight_k;
              T* const gradient = dqkv.as<T>() + offset;
              backward_row<T, false>(gradient, x + offset, weight.as<const float>(), n, 0.0F,
                                     r[token * normed + head], nullptr, gradient);
            }
          }
        });
      });
    });
  }
};

}  // namespace

std::unique_ptr<math::Norm> make_norm(Device& /*device*/) {
  return std::make_unique<CpuNorm>();
}

}  // namespace penstock::cpu
