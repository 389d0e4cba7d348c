#include "kernels/cuda/cached_attention.h"

#include <fmt/format.h>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/cached_attention_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/device/error.h"
#include "kernels/math/cached_attention_check.h"

namespace penstock::cuda {
namespace {

using math::CachedAttentionShape;

class CudaCachedPlan final : public math::CachedAttentionPlan {
 public:
  explicit CudaCachedPlan(const CachedAttentionShape& shape) : shape_(shape) {}
  const CachedAttentionShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return 0; }

  void forward(Stream& stream, Tensor qkv, Tensor slots, Tensor positions, Tensor keys, Tensor values,
               Tensor out, Tensor workspace) override {
    math::check_cached_attention(shape_, 0, qkv, slots, positions, keys, values, out, workspace);
    with_element(shape_.dtype, [&]<class T>(T) {
      cached_attention<T>(handle_of(stream), {.qkv = qkv.as<const T>(),
                                              .slots = slots.as<const int32_t>(),
                                              .positions = positions.as<const int32_t>(),
                                              .keys = keys.as<T>(),
                                              .values = values.as<T>(),
                                              .out = out.as<T>(),
                                              .shape = shape_});
    });
  }

 private:
  CachedAttentionShape shape_;
};

class CudaCachedAttention final : public math::CachedAttention {
 public:
  math::Support supports(const CachedAttentionShape& shape) const override {
    if (math::Support support = math::check_cached_attention_shape(shape); !support) return support;
    if (shape.head_dim > most_head_dim || shape.heads > most_launch_rows) {
      return math::Support::no(
          fmt::format("CUDA's cached attention has at most {} heads of at most {} channels, not {} of {}",
                      most_launch_rows, most_head_dim, shape.heads, shape.head_dim));
    }
    return supports_element(shape.dtype);
  }

  std::unique_ptr<math::CachedAttentionPlan> plan(const CachedAttentionShape& shape) override {
    if (const math::Support support = supports(shape); !support)
      throw DeviceError("cached attention: " + support.reason);
    return std::make_unique<CudaCachedPlan>(shape);
  }
};

}  // namespace

std::unique_ptr<math::CachedAttention> make_cached_attention(Device& /*device*/) {
  return std::make_unique<CudaCachedAttention>();
}

}  // namespace penstock::cuda
