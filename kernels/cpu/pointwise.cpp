#include "kernels/cpu/pointwise.h"

#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/math/pointwise_check.h"

namespace penstock::cpu {
namespace {

/// Elements of one piece.
constexpr int64_t grain = 16384;

int64_t row_grain(int64_t width) {
  return std::max<int64_t>(1, grain / std::max<int64_t>(1, width));
}

float sigmoid(float x) {
  return 1.0F / (1.0F + vector_exp(-x));
}

constexpr float gelu_scale = 0.797884561F;  // √(2/π)
constexpr float gelu_cubic = 0.044715F;

/// x, kept where GELU is not yet exactly x or 0, so that its cube stays finite; NaN stays.
float gelu_argument(float x) {
  const float below = x > 30.0F ? 30.0F : x;
  return below < -30.0F ? -30.0F : below;
}

/// ½ (1 + tanh u) = sigmoid(2 u): one exponential, and no cancellation where tanh is near −1.
float gelu_gate(float argument) {
  const float cubic = gelu_cubic * argument * argument * argument;
  return sigmoid(2.0F * gelu_scale * (argument + cubic));
}

float gelu(float x) {
  return x * gelu_gate(gelu_argument(x));
}

float gelu_derivative(float x) {
  const float argument = gelu_argument(x);
  const float gate = gelu_gate(argument);
  const float slope = 2.0F * gelu_scale * std::fma(3.0F * gelu_cubic * argument, argument, 1.0F);
  return std::fma(argument * gate * (1.0F - gate), slope, gate);
}

/// One row of rotate-half: `heads` heads of 2 · half channels, table entries (cos, sin).
template <class T>
void rotate_row(T* row, const float* table, int64_t heads, int64_t half, float sign) {
  for (int64_t head = 0; head < heads; ++head) {
    T* const first = row + head * 2 * half;
    T* const second = first + half;
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      const float cosine = table[2 * i];
      const float sine = sign * table[2 * i + 1];
      const auto a = static_cast<float>(first[i]);
      const auto b = static_cast<float>(second[i]);
      store(first[i], a * cosine - b * sine);
      store(second[i], b * cosine + a * sine);
    }
  }
}

template <class T>
void swiglu_row(const T* gate_up, int64_t width, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const auto gate = static_cast<float>(gate_up[i]);
    store(y[i], gate * sigmoid(gate) * static_cast<float>(gate_up[width + i]));
  }
}

template <class T>
void swiglu_backward_row(const T* dy, const T* gate_up, int64_t width, T* dgate_up) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const auto gradient = static_cast<float>(dy[i]);
    const auto gate = static_cast<float>(gate_up[i]);
    const auto up = static_cast<float>(gate_up[width + i]);
    const float s = sigmoid(gate);
    store(dgate_up[i], gradient * up * s * std::fma(gate, 1.0F - s, 1.0F));
    store(dgate_up[width + i], gradient * (gate * s));
  }
}

/// y[i] = operation(i) for all elements.
template <class T, class Element>
void for_elements(int64_t count, T* y, const Element& element) {
  parallel_ranges(count, grain, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) store(y[i], element(i));
  });
}

class CpuPointwise final : public math::Pointwise {
 public:
  math::Support supports(DType dtype) const override {
    if (dtype != DType::fp32 && dtype != DType::bf16 && dtype != DType::fp16) {
      return math::Support::no("the CPU's element-wise operations take fp32, bf16 and fp16");
    }
    return math::Support::yes();
  }

  void gelu_forward(Stream& stream, Tensor x, Tensor y) override {
    math::check_gelu_forward(x, y);
    with_element(x.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("gelu_forward", [=, in = x.as<const T>()] {
        for_elements(x.elements(), y.as<T>(), [in](int64_t i) { return gelu(static_cast<float>(in[i])); });
      });
    });
  }

  void gelu_backward(Stream& stream, Tensor dy, Tensor x, Tensor dx) override {
    math::check_gelu_backward(dy, x, dx);
    with_element(x.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("gelu_backward", [=, in = x.as<const T>(), gradient = dy.as<const T>()] {
        for_elements(x.elements(), dx.as<T>(), [in, gradient](int64_t i) {
          return static_cast<float>(gradient[i]) * gelu_derivative(static_cast<float>(in[i]));
        });
      });
    });
  }

  void swiglu_forward(Stream& stream, Tensor gate_up, Tensor y) override {
    math::check_swiglu_forward(gate_up, y);
    with_element(y.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("swiglu_forward", [=, in = gate_up.as<const T>(), out = y.as<T>()] {
        const int64_t width = y.shape[1];
        parallel_ranges(y.shape[0], row_grain(width), [=](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            swiglu_row(in + row * 2 * width, width, out + row * width);
          }
        });
      });
    });
  }

  void swiglu_backward(Stream& stream, Tensor dy, Tensor gate_up, Tensor dgate_up) override {
    math::check_swiglu_backward(dy, gate_up, dgate_up);
    with_element(dy.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("swiglu_backward", [=, in = gate_up.as<const T>(),
                                                        gradient = dy.as<const T>(), out = dgate_up.as<T>()] {
        const int64_t width = dy.shape[1];
        parallel_ranges(dy.shape[0], row_grain(width), [=](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            swiglu_backward_row(gradient + row * width, in + row * 2 * width, width, out + row * 2 * width);
          }
        });
      });
    });
  }

  void add(Stream& stream, Tensor a, Tensor b, Tensor y) override {
    math::check_add(a, b, y);
    with_element(a.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("add", [=, left = a.as<const T>(), right = b.as<const T>()] {
        for_elements(y.elements(), y.as<T>(), [left, right](int64_t i) {
          return static_cast<float>(left[i]) + static_cast<float>(right[i]);
        });
      });
    });
  }

  void convert(Stream& stream, Tensor src, Tensor dst) override {
    math::check_convert(src, dst);
    with_element(src.dtype, [&]<class From>(From) {
      with_element(dst.dtype, [&]<class To>(To) {
        CpuStream::of(stream).enqueue("convert", [=, in = src.as<const From>()] {
          convert_elements(in, src.elements(), dst.as<To>());
        });
      });
    });
  }

  void rope(Stream& stream, Tensor qkv, Tensor positions, Tensor table, int64_t rotated_heads,
            int64_t head_dim, bool inverse) override {
    math::check_rope(qkv, positions, table, rotated_heads, head_dim);
    with_element(qkv.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("rope", [=] {
        const int64_t width = qkv.shape[1];
        parallel_ranges(qkv.shape[0], row_grain(width), [=](int64_t begin, int64_t end) {
          for (int64_t token = begin; token < end; ++token) {
            const int64_t position = positions.as<const int32_t>()[token];
            rotate_row(qkv.as<T>() + token * width, table.as<const float>() + position * head_dim,
                       rotated_heads, head_dim / 2, inverse ? -1.0F : 1.0F);
          }
        });
      });
    });
  }

  void dropout(Stream& stream, Tensor x, Tensor samples, const math::StepScalars* scalars,
               math::DropoutSite site, Tensor y) override {
    math::check_dropout(x, samples, scalars, site, y);
    with_element(x.dtype, [&]<class T>(T) {
      CpuStream::of(stream).enqueue("dropout", [=] { run_dropout<T>(x, samples, *scalars, site, y); });
    });
  }
};

}  // namespace

std::unique_ptr<math::Pointwise> make_pointwise(Device& /*device*/) {
  return std::make_unique<CpuPointwise>();
}

}  // namespace penstock::cpu
