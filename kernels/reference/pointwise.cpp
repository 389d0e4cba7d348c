#include "kernels/reference/pointwise.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include "kernels/cpu/stream.h"
#include "kernels/math/philox.h"
#include "kernels/math/pointwise_check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

using cpu::CpuStream;

const double gelu_scale = std::sqrt(2 / std::numbers::pi);
constexpr double gelu_cubic = 0.044715;

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(gelu_scale * (x + gelu_cubic * x * x * x)));
}

double gelu_derivative(double x) {
  const double t = std::tanh(gelu_scale * (x + gelu_cubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_scale * (1 + 3 * gelu_cubic * x * x);
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Whether dropout keeps element `element` of a sample.
bool keeps(const math::DropoutSite& site, uint64_t step, uint64_t sample, uint64_t element) {
  const auto purpose = static_cast<uint32_t>(math::RandomPurpose::dropout);
  const std::array<uint32_t, 4> words =
      math::philox({static_cast<uint32_t>(element / 4), static_cast<uint32_t>(sample),
                    static_cast<uint32_t>(step), purpose << 24 | site.site},
                   {static_cast<uint32_t>(site.seed),
                    static_cast<uint32_t>(site.seed >> 32) ^ static_cast<uint32_t>(sample >> 32)});
  return words[element % 4] >= static_cast<double>(site.probability) * 4294967296.0;
}

class ReferencePointwise final : public math::Pointwise {
 public:
  math::Support supports(DType dtype) const override {
    if (dtype != DType::fp32 && dtype != DType::bf16 && dtype != DType::fp16 && dtype != DType::fp64) {
      return math::Support::no("the reference element-wise operations take fp32, bf16, fp16 and fp64");
    }
    return math::Support::yes();
  }

  void gelu_forward(Stream& stream, Tensor x, Tensor y) override {
    math::check_gelu_forward(x, y);
    CpuStream::of(stream).enqueue("reference gelu_forward", [=] {
      for (int64_t i = 0; i < x.elements(); ++i) store(y, i, gelu(load(x, i)));
    });
  }

  void gelu_backward(Stream& stream, Tensor dy, Tensor x, Tensor dx) override {
    math::check_gelu_backward(dy, x, dx);
    CpuStream::of(stream).enqueue("reference gelu_backward", [=] {
      for (int64_t i = 0; i < x.elements(); ++i) store(dx, i, load(dy, i) * gelu_derivative(load(x, i)));
    });
  }

  void swiglu_forward(Stream& stream, Tensor gate_up, Tensor y) override {
    math::check_swiglu_forward(gate_up, y);
    CpuStream::of(stream).enqueue("reference swiglu_forward", [=] {
      const int64_t width = y.shape[1];
      for (int64_t i = 0; i < y.elements(); ++i) {
        const int64_t at = i / width * 2 * width + i % width;
        const double gate = load(gate_up, at);
        store(y, i, gate * sigmoid(gate) * load(gate_up, at + width));
      }
    });
  }

  void swiglu_backward(Stream& stream, Tensor dy, Tensor gate_up, Tensor dgate_up) override {
    math::check_swiglu_backward(dy, gate_up, dgate_up);
    CpuStream::of(stream).enqueue("reference swiglu_backward", [=] {
      const int64_t width = dy.shape[1];
      for (int64_t i = 0; i < dy.elements(); ++i) {
        const int64_t at = i / width * 2 * width + i % width;
        const double gate = load(gate_up, at);
        const double up = load(gate_up, at + width);
        const double s = sigmoid(gate);
        store(dgate_up, at, load(dy, i) * up * (s + gate * s * (1 - s)));
        store(dgate_up, at + width, load(dy, i) * gate * s);
      }
    });
  }

  void add(Stream& stream, Tensor a, Tensor b, Tensor y) override {
    math::check_add(a, b, y);
    CpuStream::of(stream).enqueue("reference add", [=] {
      for (int64_t i = 0; i < y.elements(); ++i) store(y, i, load(a, i) + load(b, i));
    });
  }

  void convert(Stream& stream, Tensor src, Tensor dst) override {
    math::check_convert(src, dst);
    CpuStream::of(stream).enqueue("reference convert", [=] {
      for (int64_t i = 0; i < src.elements(); ++i) store(dst, i, load(src, i));
    });
  }

  void rope(Stream& stream, Tensor qkv, Tensor positions, Tensor table, int64_t rotated_heads,
            int64_t head_dim, bool inverse) override {
    math::check_rope(qkv, positions, table, rotated_heads, head_dim);
    CpuStream::of(stream).enqueue("reference rope", [=] {
      const int64_t half = head_dim / 2;
      for (int64_t token = 0; token < qkv.shape[0]; ++token) {
        for (int64_t head = 0; head < rotated_heads; ++head) {
          for (int64_t i = 0; i < half; ++i) {
            const int64_t entry = (positions.as<const int32_t>()[token] * half + i) * 2;
            const double cosine = load(table, entry);
            const double sine = inverse ? -load(table, entry + 1) : load(table, entry + 1);
            const int64_t first = token * qkv.shape[1] + head * head_dim + i;
            const double a = load(qkv, first);
            const double b = load(qkv, first + half);
            store(qkv, first, a * cosine - b * sine);
            store(qkv, first + half, b * cosine + a * sine);
          }
        }
      }
    });
  }

  void dropout(Stream& stream, Tensor x, Tensor samples, const math::StepScalars* scalars,
               math::DropoutSite site, Tensor y) override {
    math::check_dropout(x, samples, scalars, site, y);
    CpuStream::of(stream).enqueue("reference dropout", [=] {
      const int64_t count = samples.shape[0];
      const int64_t elements = x.elements() / count;
      for (int64_t i = 0; i < x.elements(); ++i) {
        const auto sample = static_cast<uint64_t>(samples.as<const int64_t>()[i / elements]);
        const bool keep = keeps(site, scalars->step, sample, static_cast<uint64_t>(i % elements));
        store(y, i, keep ? load(x, i) / (1 - static_cast<double>(site.probability)) : 0.0);
      }
    });
  }
};

}  // namespace

std::unique_ptr<math::Pointwise> make_pointwise(Device& /*device*/) {
  return std::make_unique<ReferencePointwise>();
}

}  // namespace penstock::reference
