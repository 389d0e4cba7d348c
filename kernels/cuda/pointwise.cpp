#include "kernels/cuda/pointwise.h"

#include "kernels/cuda/pointwise_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/math/pointwise_check.h"

namespace penstock::cuda {
namespace {

class CudaPointwise final : public math::Pointwise {
 public:
  math::Support supports(DType dtype) const override { return supports_element(dtype); }

  void gelu_forward(Stream& stream, Tensor x, Tensor y) override {
    math::check_gelu_forward(x, y);
    with_element(x.dtype, [&]<class T>(T) {
      cuda::gelu_forward(handle_of(stream), x.as<const T>(), y.as<T>(), x.elements());
    });
  }

  void gelu_backward(Stream& stream, Tensor dy, Tensor x, Tensor dx) override {
    math::check_gelu_backward(dy, x, dx);
    with_element(x.dtype, [&]<class T>(T) {
      cuda::gelu_backward(handle_of(stream), dy.as<const T>(), x.as<const T>(), dx.as<T>(), x.elements());
    });
  }

  void swiglu_forward(Stream& stream, Tensor gate_up, Tensor y) override {
    math::check_swiglu_forward(gate_up, y);
    with_element(y.dtype, [&]<class T>(T) {
      cuda::swiglu_forward(handle_of(stream), gate_up.as<const T>(), y.as<T>(), y.shape[0], y.shape[1]);
    });
  }

  void swiglu_backward(Stream& stream, Tensor dy, Tensor gate_up, Tensor dgate_up) override {
    math::check_swiglu_backward(dy, gate_up, dgate_up);
    with_element(dy.dtype, [&]<class T>(T) {
      cuda::swiglu_backward(handle_of(stream), dy.as<const T>(), gate_up.as<const T>(), dgate_up.as<T>(),
                            dy.shape[0], dy.shape[1]);
    });
  }

  void add(Stream& stream, Tensor a, Tensor b, Tensor y) override {
    math::check_add(a, b, y);
    with_element(a.dtype, [&]<class T>(T) {
      cuda::add(handle_of(stream), a.as<const T>(), b.as<const T>(), y.as<T>(), y.elements());
    });
  }

  void convert(Stream& stream, Tensor src, Tensor dst) override {
    math::check_convert(src, dst);
    with_element(src.dtype, [&]<class From>(From) {
      with_element(dst.dtype, [&]<class To>(To) {
        cuda::convert(handle_of(stream), src.as<const From>(), dst.as<To>(), src.elements());
      });
    });
  }

  void rope(Stream& stream, Tensor qkv, Tensor positions, Tensor table, int64_t rotated_heads,
            int64_t head_dim, bool inverse) override {
    math::check_rope(qkv, positions, table, rotated_heads, head_dim);
    with_element(qkv.dtype, [&]<class T>(T) {
      cuda::rope<T>(handle_of(stream), {.qkv = qkv.as<T>(),
                                        .positions = positions.as<const int32_t>(),
                                        .table = table.as<const float>(),
                                        .tokens = qkv.shape[0],
                                        .row = qkv.shape[1],
                                        .rotated_heads = rotated_heads,
                                        .head_dim = head_dim,
                                        .sign = inverse ? -1.0F : 1.0F});
    });
  }

  void dropout(Stream& stream, Tensor x, Tensor samples, const math::StepScalars* scalars,
               math::DropoutSite site, Tensor y) override {
    math::check_dropout(x, samples, scalars, site, y);
    with_element(x.dtype, [&]<class T>(T) {
      cuda::dropout<T>(handle_of(stream), {.x = x.as<const T>(),
                                           .y = y.as<T>(),
                                           .samples = samples.as<const int64_t>(),
                                           .batch = samples.shape[0],
                                           .elements = x.elements() / samples.shape[0],
                                           .scalars = scalars,
                                           .site = site});
    });
  }
};

}  // namespace

std::unique_ptr<math::Pointwise> make_pointwise(Device& /*device*/) {
  return std::make_unique<CudaPointwise>();
}

}  // namespace penstock::cuda
