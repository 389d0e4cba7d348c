#include "kernels/cuda/attention.h"

#include <fmt/format.h>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/device/error.h"
#include "kernels/math/attention_check.h"

namespace penstock::cuda {
namespace {

class CudaAttention final : public math::AttentionPlan {
 public:
  explicit CudaAttention(const math::AttentionShape& shape) : shape_(shape) {}

  const math::AttentionShape& shape() const override { return shape_; }
  /// delta (B,H,T) of the backward pass.
  size_t workspace_bytes() const override {
    return static_cast<size_t>(shape_.batch * shape_.heads * shape_.tokens) * sizeof(float);
  }

  void forward(Stream& stream, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor workspace) override {
    math::check_attention_forward(shape_, workspace_bytes(), qkv, starts, out, lse, workspace);
    with_element(shape_.dtype, [&]<class T>(T) {
      attention_forward<T>(handle_of(stream), {.qkv = qkv.as<const T>(),
                                               .starts = starts.as<const int32_t>(),
                                               .out = out.as<T>(),
                                               .lse = lse.as<float>(),
                                               .shape = shape_});
    });
  }

  void backward(Stream& stream, Tensor dout, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor dqkv,
                Tensor workspace) override {
    math::check_attention_backward(shape_, workspace_bytes(), dout, qkv, starts, out, lse, dqkv, workspace);
    with_element(shape_.dtype, [&]<class T>(T) {
      attention_backward<T>(handle_of(stream), {.dout = dout.as<const T>(),
                                                .qkv = qkv.as<const T>(),
                                                .starts = starts.as<const int32_t>(),
                                                .out = out.as<const T>(),
                                                .lse = lse.as<const float>(),
                                                .delta = workspace.as<float>(),
                                                .dqkv = dqkv.as<T>(),
                                                .shape = shape_});
    });
  }

 private:
  math::AttentionShape shape_;
};

class CudaAttentions final : public math::Attention {
 public:
  math::Support supports(const math::AttentionShape& shape) const override {
    if (math::Support support = math::check_attention_shape(shape); !support) return support;
    if (shape.head_dim > most_head_dim) {
      return math::Support::no(
          fmt::format("the built-in CUDA attention has heads of at most {} channels, not {}", most_head_dim,
                      shape.head_dim));
    }
    if (shape.batch * shape.heads > most_launch_rows) {
      return math::Support::no(
          fmt::format("the built-in CUDA attention takes at most {} heads of a batch, not {}",
                      most_launch_rows, shape.batch * shape.heads));
    }
    return supports_element(shape.dtype);
  }

  std::unique_ptr<math::AttentionPlan> plan(const math::AttentionShape& shape) override {
    if (const math::Support support = supports(shape); !support) {
      throw DeviceError("attention: " + support.reason);
    }
    return std::make_unique<CudaAttention>(shape);
  }
};

}  // namespace

std::unique_ptr<math::Attention> make_attention(Device& /*device*/) {
  return std::make_unique<CudaAttentions>();
}

}  // namespace penstock::cuda
