#include "kernels/cpu/head.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_product.h"
#include "kernels/cpu/stream.h"
#include "kernels/device/arena.h"
#include "kernels/device/error.h"
#include "kernels/math/head_check.h"
#include "kernels/math/with_element.h"

namespace penstock::cpu {
namespace {

using math::HeadShape;

/// fp32 logits of one block of tokens take at most about this many bytes.
constexpr int64_t logits_bytes = int64_t{128} << 20;
constexpr int64_t softmax_tokens = 4;  ///< tokens in one piece of the softmax

/// Tokens of a block: few blocks, so that dw is read and written rarely, but no more logits than logits_bytes
/// hold; about equal, because products of few tokens are slow; a multiple of 64, at most what one step over
/// the tokens of a product takes.
int64_t block_tokens(const HeadShape& shape) {
  const int64_t fit = logits_bytes / (shape.rows * static_cast<int64_t>(sizeof(float))) / 64 * 64;
  const int64_t most = std::clamp<int64_t>(fit, 64, Product::depth_block);
  const int64_t blocks = (shape.tokens + most - 1) / most;
  const int64_t share = (shape.tokens + blocks - 1) / blocks;
  return std::min(shape.tokens, (share + 63) / 64 * 64);
}

/// The three products of a block of some number of tokens.
struct BlockProducts {
  BlockProducts(const HeadShape& shape, int64_t tokens, int threads)
      : logits({.rows = tokens,
                .columns = shape.rows,
                .depth = shape.hidden,
                .in = shape.dtype,
                .out = DType::fp32,
                .b_transposed = true},
               threads),
        backward_input({.rows = tokens,
                        .columns = shape.hidden,
                        .depth = shape.rows,
                        .in = shape.dtype,
                        .out = shape.dtype},
                       threads),
        backward_weight({.rows = shape.rows,
                         .columns = shape.hidden,
                         .depth = tokens,
                         .in = shape.dtype,
                         .out = DType::fp32,
                         .a_transposed = true,
                         .accumulate = true},
                        threads) {}

  size_t workspace_bytes() const {
    return std::max(
        {logits.workspace_bytes(), backward_input.workspace_bytes(), backward_weight.workspace_bytes()});
  }

  Product logits;
  Product backward_input;
  Product backward_weight;
};

/// Tokens whose logits are computed at once.
constexpr int64_t generated_tokens = 16;

class CpuHead final : public math::HeadPlan {
 public:
  CpuHead(const HeadShape& shape, int threads)
      : shape_(shape),
        block_(block_tokens(shape)),
        whole_(shape, block_, threads),
        generation_(std::min(shape.tokens, generated_tokens), shape.vocab, shape.hidden, shape.dtype,
                    DType::fp32) {
    if (const int64_t rest = shape.tokens % block_; rest > 0) rest_.emplace(shape, rest, threads);
    const auto cells = static_cast<size_t>(block_ * shape.rows);
    gradient_offset_ = aligned(cells * sizeof(float));
    scratch_offset_ =
        gradient_offset_ + (shape.dtype == DType::fp32 ? 0 : aligned(cells * size_of(shape.dtype)));
    size_t scratch = whole_.workspace_bytes();
    if (rest_) scratch = std::max(scratch, rest_->workspace_bytes());
    scratch = std::max(scratch, generation_.workspace_bytes());
    workspace_bytes_ = scratch_offset_ + scratch;
  }

  const HeadShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return workspace_bytes_; }

  void loss(Stream& stream, Tensor x, Tensor w, Tensor targets, Tensor losses, Tensor workspace) override {
    math::check_head_loss(shape_, x, w, targets, losses, workspace, workspace_bytes());
    CpuStream::of(stream).enqueue("head loss", [=, this] {
      each_block([&](int64_t begin, int64_t count, BlockProducts& products) {
        products.logits.run(row(x, begin), w.data, nullptr, workspace.data, scratch(workspace));
        parallel_ranges(count, softmax_tokens, [&](int64_t first, int64_t last) {
          for (int64_t n = first; n < last; ++n) {
            losses.as<float>()[begin + n] =
                cross_entropy_row(workspace.as<float>() + n * shape_.rows, shape_.rows, shape_.vocab,
                                  targets.as<const int32_t>()[begin + n]);
          }
        });
      });
    });
  }

  void loss_and_backward(Stream& stream, Tensor x, Tensor w, Tensor targets, const math::StepScalars* scalars,
                         Tensor losses, Tensor dx, Tensor dw, Tensor workspace) override {
    math::check_head_loss_and_backward(shape_, x, w, targets, scalars, losses, dx, dw, workspace,
                                       workspace_bytes());
    CpuStream::of(stream).enqueue("head loss_and_backward", [=, this] {
      void* gradient = workspace.as<char>() + (shape_.dtype == DType::fp32 ? 0 : gradient_offset_);
      each_block([&](int64_t begin, int64_t count, BlockProducts& products) {
        products.logits.run(row(x, begin), w.data, nullptr, workspace.data, scratch(workspace));
        const int32_t* target = targets.as<const int32_t>() + begin;
        float* loss = losses.as<float>() + begin;
        math::with_element(shape_.dtype, [&]<class T>(T) {
          softmax(workspace.as<float>(), count, target, scalars->gradient_scale, loss,
                  static_cast<T*>(gradient));
        });
        products.backward_input.run(gradient, w.data, nullptr, row(dx, begin), scratch(workspace));
        products.backward_weight.run(gradient, row(x, begin), nullptr, dw.data, scratch(workspace));
      });
    });
  }

  void logits(Stream& stream, Tensor x, Tensor w, Tensor logits, Tensor workspace) override {
    const int64_t tokens = logits.shape[0];
    math::check_head_logits(shape_, x, w, logits, workspace, workspace_bytes());
    CpuStream::of(stream).enqueue("head logits", [=, this] {
      for (int64_t begin = 0; begin < tokens; begin += generation_.rows()) {
        generation_.run(std::min(generation_.rows(), tokens - begin), row(x, begin), w.data, nullptr,
                        row(logits, begin), scratch(workspace));
      }
    });
  }

 private:
  static void* row(const Tensor& x, int64_t index) {
    return x.as<char>() + index * x.shape[1] * static_cast<int64_t>(size_of(x.dtype));
  }
  void* scratch(const Tensor& workspace) const { return workspace.as<char>() + scratch_offset_; }

  /// body(first token, number of tokens, products) over the blocks, ascending.
  template <class Body>
  void each_block(const Body& body) {
    for (int64_t begin = 0; begin < shape_.tokens; begin += block_) {
      const int64_t count = std::min(block_, shape_.tokens - begin);
      body(begin, count, count == block_ ? whole_ : *rest_);
    }
  }

  template <class T>
  void softmax(float* logits, int64_t count, const int32_t* targets, float scale, float* losses,
               T* gradient) const {
    parallel_ranges(count, softmax_tokens, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        losses[n] = cross_entropy_row(logits + n * shape_.rows, shape_.rows, shape_.vocab, targets[n], scale,
                                      gradient + n * shape_.rows);
      }
    });
  }

  HeadShape shape_;
  int64_t block_;
  BlockProducts whole_;
  std::optional<BlockProducts> rest_;
  RowProduct generation_;
  size_t gradient_offset_ = 0;  ///< in the workspace, after the logits: narrow gradients of the logits
  size_t scratch_offset_ = 0;
  size_t workspace_bytes_ = 0;
};

class CpuHeads final : public math::Head {
 public:
  explicit CpuHeads(int threads) : threads_(threads) {}

  math::Support supports(const HeadShape& shape) const override {
    if (math::Support sizes = math::supports_head_sizes(shape); !sizes) return sizes;
    return supports_products(shape.dtype);
  }

  std::unique_ptr<math::HeadPlan> plan(const HeadShape& shape) override {
    if (const math::Support support = supports(shape); !support) throw DeviceError("head: " + support.reason);
    return std::make_unique<CpuHead>(shape, threads_);
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<math::Head> make_head(Device& device) {
  return std::make_unique<CpuHeads>(device.options().threads);
}

}  // namespace penstock::cpu
