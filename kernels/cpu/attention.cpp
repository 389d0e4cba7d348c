#include "kernels/cpu/attention.h"

#include <algorithm>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/stream.h"
#include "kernels/device/error.h"
#include "kernels/math/attention_check.h"

namespace penstock::cpu {
namespace {

using math::AttentionShape;

class CpuAttentionPlan final : public math::AttentionPlan {
 public:
  CpuAttentionPlan(const AttentionShape& shape, int threads) : shape_(shape), threads_(threads) {}

  const AttentionShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override {
    const size_t tiles = std::max(attention_forward_bytes(shape_.head_dim), attention_backward_bytes(shape_));
    return tiles * static_cast<size_t>(threads_);
  }

  void forward(Stream& stream, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor workspace) override {
    math::check_attention_forward(shape_, workspace_bytes(), qkv, starts, out, lse, workspace);
    with_element(shape_.dtype, [&]<class T>(T) {
      const AttentionCall<T> call = common<T>(qkv, starts, out, lse, workspace);
      CpuStream::of(stream).enqueue("attention forward", [call] { run_attention_forward(call); });
    });
  }

  void backward(Stream& stream, Tensor dout, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor dqkv,
                Tensor workspace) override {
    math::check_attention_backward(shape_, workspace_bytes(), dout, qkv, starts, out, lse, dqkv, workspace);
    with_element(shape_.dtype, [&]<class T>(T) {
      AttentionCall<T> call = common<T>(qkv, starts, out, lse, workspace);
      call.dout = dout.as<const T>();
      call.dqkv = dqkv.as<T>();
      CpuStream::of(stream).enqueue("attention backward", [call] { run_attention_backward(call); });
    });
  }

 private:
  template <class T>
  AttentionCall<T> common(const Tensor& qkv, const Tensor& starts, const Tensor& out, const Tensor& lse,
                          const Tensor& workspace) const {
    AttentionCall<T> call;
    call.shape = shape_;
    call.qkv = qkv.as<const T>();
    call.starts = starts.as<const int32_t>();
    call.out = out.as<T>();
    call.lse = lse.as<float>();
    call.workspace = workspace.as<char>();
    call.threads = threads_;
    return call;
  }

  AttentionShape shape_;
  int threads_;
};

class CpuAttention final : public math::Attention {
 public:
  explicit CpuAttention(int threads) : threads_(threads) {}

  math::Support supports(const AttentionShape& shape) const override {
    if (shape.dtype != DType::fp32 && shape.dtype != DType::bf16 && shape.dtype != DType::fp16) {
      return math::Support::no("the CPU's attention takes fp32, bf16 and fp16");
    }
    return math::check_attention_shape(shape);
  }

  std::unique_ptr<math::AttentionPlan> plan(const AttentionShape& shape) override {
    if (const math::Support support = supports(shape); !support) throw DeviceError(support.reason);
    return std::make_unique<CpuAttentionPlan>(shape, threads_);
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<math::Attention> make_attention(Device& device) {
  return std::make_unique<CpuAttention>(device.options().threads);
}

}  // namespace penstock::cpu
