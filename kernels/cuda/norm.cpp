#include "kernels/cuda/norm.h"

#include "kernels/cuda/norm_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/math/norm_check.h"

namespace penstock::cuda {
namespace {

class CudaNorm final : public math::Norm {
 public:
  math::Support supports(DType dtype, int64_t channels) const override {
    if (channels < 1) return math::Support::no("a norm needs at least 1 channel");
    return supports_element(dtype);
  }

  void layer_norm_forward(Stream& stream, Tensor x, Tensor weight, Tensor bias, float epsilon, Tensor y,
                          Tensor mean, Tensor rstd) override {
    const math::NormSizes sizes = math::check_layer_norm_forward(x, weight, bias, y, mean, rstd);
    with_element(x.dtype, [&]<class T>(T) {
      cuda::layer_norm_forward<T>(handle_of(stream), {.x = x.as<const T>(),
                                                      .weight = weight.as<const float>(),
                                                      .bias = bias.as<const float>(),
                                                      .y = y.as<T>(),
                                                      .mean = mean.as<float>(),
                                                      .rstd = rstd.as<float>(),
                                                      .rows = sizes.tokens,
                                                      .channels = sizes.channels,
                                                      .epsilon = epsilon});
    });
  }

  void layer_norm_backward(Stream& stream, Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor rstd,
                           Tensor dresidual, Tensor dx, Tensor dweight, Tensor dbias) override {
    const math::NormSizes sizes =
        math::check_layer_norm_backward(dy, x, weight, mean, rstd, dresidual, dx, dweight, dbias);
    with_element(x.dtype, [&]<class T>(T) {
      cuda::layer_norm_backward<T>(handle_of(stream), {.dy = dy.as<const T>(),
                                                       .x = x.as<const T>(),
                                                       .weight = weight.as<const float>(),
                                                       .mean = mean.as<const float>(),
                                                       .rstd = rstd.as<const float>(),
                                                       .dresidual = dresidual.as<const T>(),
                                                       .dx = dx.as<T>(),
                                                       .dweight = dweight.as<float>(),
                                                       .dbias = dbias.as<float>(),
                                                       .rows = sizes.tokens,
                                                       .channels = sizes.channels});
    });
  }

  void rms_norm_forward(Stream& stream, Tensor x, Tensor weight, float epsilon, Tensor y,
                        Tensor rstd) override {
    const math::NormSizes sizes = math::check_rms_norm_forward(x, weight, y, rstd);
    with_element(x.dtype, [&]<class T>(T) {
      cuda::rms_norm_forward<T>(handle_of(stream), {.x = x.as<const T>(),
                                                    .weight = weight.as<const float>(),
                                                    .y = y.as<T>(),
                                                    .rstd = rstd.as<float>(),
                                                    .rows = sizes.tokens,
                                                    .channels = sizes.channels,
                                                    .epsilon = epsilon});
    });
  }

  void rms_norm_backward(Stream& stream, Tensor dy, Tensor x, Tensor weight, Tensor rstd, Tensor dresidual,
                         Tensor dx, Tensor dweight) override {
    const math::NormSizes sizes = math::check_rms_norm_backward(dy, x, weight, rstd, dresidual, dx, dweight);
    with_element(x.dtype, [&]<class T>(T) {
      cuda::rms_norm_backward<T>(handle_of(stream), {.dy = dy.as<const T>(),
                                                     .x = x.as<const T>(),
                                                     .weight = weight.as<const float>(),
                                                     .rstd = rstd.as<const float>(),
                                                     .dresidual = dresidual.as<const T>(),
                                                     .dx = dx.as<T>(),
                                                     .dweight = dweight.as<float>(),
                                                     .rows = sizes.tokens,
                                                     .channels = sizes.channels});
    });
  }

  void head_norm_forward(Stream& stream, Tensor qkv, Tensor weight_q, Tensor weight_k, float epsilon,
                         int64_t heads, int64_t kv_heads, Tensor out, Tensor rstd) override {
    const math::HeadNormSizes sizes =
        math::check_head_norm_forward(qkv, weight_q, weight_k, heads, kv_heads, out, rstd);
    with_element(qkv.dtype, [&]<class T>(T) {
      cuda::head_norm_forward<T>(handle_of(stream), {.qkv = qkv.as<const T>(),
                                                     .weight_q = weight_q.as<const float>(),
                                                     .weight_k = weight_k.as<const float>(),
                                                     .out = out.as<T>(),
                                                     .rstd_out = rstd.as<float>(),
                                                     .tokens = sizes.tokens,
                                                     .heads = sizes.heads,
                                                     .kv_heads = sizes.kv_heads,
                                                     .head_dim = sizes.head_dim,
                                                     .epsilon = epsilon});
    });
  }

  void head_norm_backward(Stream& stream, Tensor dqkv, Tensor qkv, Tensor weight_q, Tensor weight_k,
                          Tensor rstd, int64_t heads, int64_t kv_heads, Tensor dweight_q,
                          Tensor dweight_k) override {
    const math::HeadNormSizes sizes = math::check_head_norm_backward(dqkv, qkv, weight_q, weight_k, rstd,
                                                                     heads, kv_heads, dweight_q, dweight_k);
    with_element(qkv.dtype, [&]<class T>(T) {
      cuda::head_norm_backward<T>(handle_of(stream), {.qkv = qkv.as<const T>(),
                                                      .weight_q = weight_q.as<const float>(),
                                                      .weight_k = weight_k.as<const float>(),
                                                      .dqkv = dqkv.as<T>(),
                                                      .rstd = rstd.as<const float>(),
                                                      .dweight_q = dweight_q.as<float>(),
                                                      .dweight_k = dweight_k.as<float>(),
                                                      .tokens = sizes.tokens,
                                                      .heads = sizes.heads,
                                                      .kv_heads = sizes.kv_heads,
                                                      .head_dim = sizes.head_dim});
    });
  }
};

}  // namespace

std::unique_ptr<math::Norm> make_norm(Device& /*device*/) {
  return std::make_unique<CudaNorm>();
}

}  // namespace penstock::cuda
