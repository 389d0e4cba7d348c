#include "kernels/cuda/choose_attention.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

using math::AttentionPlan;
using math::AttentionShape;

/// cuDNN's plan, and the built-in one for document borders.
class SharedPlan final : public AttentionPlan {
 public:
  SharedPlan(std::unique_ptr<AttentionPlan> cudnn, std::unique_ptr<AttentionPlan> native)
      : cudnn_(std::move(cudnn)), native_(std::move(native)) {}

  const AttentionShape& shape() const override { return cudnn_->shape(); }
  size_t workspace_bytes() const override {
    return std::max(cudnn_->workspace_bytes(), native_->workspace_bytes());
  }

  void forward(Stream& stream, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor workspace) override {
    plan_for(starts).forward(stream, qkv, starts, out, lse, workspace);
  }
  void backward(Stream& stream, Tensor dout, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor dqkv,
                Tensor workspace) override {
    plan_for(starts).backward(stream, dout, qkv, starts, out, lse, dqkv, workspace);
  }

 private:
  AttentionPlan& plan_for(const Tensor& starts) { return starts ? *native_ : *cudnn_; }

  std::unique_ptr<AttentionPlan> cudnn_;
  std::unique_ptr<AttentionPlan> native_;
};

class ChosenAttention final : public math::Attention {
 public:
  ChosenAttention(bool only_cudnn, OptionalAttention cudnn, std::unique_ptr<math::Attention> native,
                  std::function<void(const std::string&)> log)
      : only_cudnn_(only_cudnn), cudnn_(std::move(cudnn)), native_(std::move(native)), log_(std::move(log)) {}

  math::Support supports(const AttentionShape& shape) const override {
    if (math::Support native = native_->supports(shape); !native) return native;
    if (!only_cudnn_) return math::Support::yes();
    if (const math::Support support = cudnn_supports(shape); !support) {
      return math::Support::no(support.reason +
                               "; set `cuda.attention` to \"auto\" or \"native\" for the built-in kernels");
    }
    return math::Support::yes();
  }

  std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) override {
    if (const math::Support support = supports(shape); !support) {
      throw DeviceError("attention: " + support.reason);
    }
    const math::Support by_cudnn = cudnn_supports(shape);
    say(shape, by_cudnn ? cudnn_.description + "; where documents border, built-in kernels"
                        : "built-in kernels (" + by_cudnn.reason + ")");
    if (!by_cudnn) return native_->plan(shape);
    return std::make_unique<SharedPlan>(cudnn_.attention->plan(shape), native_->plan(shape));
  }

 private:
  math::Support cudnn_supports(const AttentionShape& shape) const {
    if (!cudnn_.attention) return math::Support::no(cudnn_.description);
    return cudnn_.attention->supports(shape);
  }
  void say(const AttentionShape& shape, const std::string& what) const {
    if (!log_) return;
    log_(fmt::format("attention, {} {} sequences of {} tokens, {} heads over {} of {} channels: {}",
                     name_of(shape.dtype), shape.batch, shape.tokens, shape.heads, shape.kv_heads,
                     shape.head_dim, what));
  }

  bool only_cudnn_;
  OptionalAttention cudnn_;
  std::unique_ptr<math::Attention> native_;
  std::function<void(const std::string&)> log_;
};

}  // namespace

std::unique_ptr<math::Attention> choose_attention(CudaAttention choice, OptionalAttention cudnn,
                                                  std::unique_ptr<math::Attention> native,
                                                  std::function<void(const std::string&)> log) {
  if (choice == CudaAttention::native) return native;
  if (choice == CudaAttention::cudnn && !cudnn.attention) {
    throw DeviceError(fmt::format(
        "`cuda.attention` is \"cudnn\", but {}; set it to \"auto\" or \"native\" for the built-in kernels",
        cudnn.description));
  }
  return std::make_unique<ChosenAttention>(choice == CudaAttention::cudnn, std::move(cudnn),
                                           std::move(native), std::move(log));
}

}  // namespace penstock::cuda
