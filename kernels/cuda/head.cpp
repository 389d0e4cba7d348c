#include "kernels/cuda/head.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/cross_entropy_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/device/arena.h"
#include "kernels/math/head_check.h"

namespace penstock::cuda {
namespace {

using math::HeadShape;

int64_t block_tokens(const HeadShape& shape, int64_t logits_bytes) {
  const int64_t fit = logits_bytes / (shape.rows * static_cast<int64_t>(sizeof(float))) / 64 * 64;
  return std::min(shape.tokens, std::max<int64_t>(fit, 64));
}

class CudaHead final : public math::HeadPlan {
 public:
  CudaHead(const HeadShape& shape, const MakeHeadProducts& make_products, int64_t logits_bytes)
      : shape_(shape), block_(block_tokens(shape, logits_bytes)) {
    const auto add = [&](int64_t tokens, int64_t rows, bool with_gradients) {
      HeadShape part = shape;
      part.tokens = tokens;
      part.rows = rows;
      products_.push_back({tokens, make_products(part, with_gradients)});
      scratch_bytes_ = std::max(scratch_bytes_, products_.back().products->workspace_bytes());
    };
    add(block_, shape.rows, true);
    if (const int64_t rest = shape.tokens % block_; rest > 0) add(rest, shape.rows, true);
    generation_ = products_.size();
    // Any number of tokens is made of these.
    for (const int64_t tokens : {64, 8, 1}) {
      if (tokens <= shape.tokens) add(tokens, shape.vocab, false);
    }
    const auto cells = static_cast<size_t>(block_ * shape.rows);
    gradient_offset_ = aligned(cells * sizeof(float));
    scratch_offset_ =
        gradient_offset_ + (shape.dtype == DType::fp32 ? 0 : aligned(cells * size_of(shape.dtype)));
  }

  const HeadShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return scratch_offset_ + scratch_bytes_; }

  void loss(Stream& stream, Tensor x, Tensor w, Tensor targets, Tensor losses, Tensor workspace) override {
    math::check_head_loss(shape_, x, w, targets, losses, workspace, workspace_bytes());
    each_block([&](int64_t begin, int64_t count, HeadProducts& products) {
      const Tensor logits(workspace.data, DType::fp32, {count, shape_.rows});
      products.logits(stream, x.rows(begin, count), w, logits, scratch(workspace));
      cross_entropy_loss(handle_of(stream), call(logits, targets, losses, begin));
    });
  }

  void loss_and_backward(Stream& stream, Tensor x, Tensor w, Tensor targets, const math::StepScalars* scalars,
                         Tensor losses, Tensor dx, Tensor dw, Tensor workspace) override {
    math::check_head_loss_and_backward(shape_, x, w, targets, scalars, losses, dx, dw, workspace,
                                       workspace_bytes());
    each_block([&](int64_t begin, int64_t count, HeadProducts& products) {
      const Tensor logits(workspace.data, DType::fp32, {count, shape_.rows});
      // fp32 gradients take the logits' place.
      const Tensor dlogits(workspace.as<char>() + (shape_.dtype == DType::fp32 ? 0 : gradient_offset_),
                           shape_.dtype, {count, shape_.rows});
      products.logits(stream, x.rows(begin, count), w, logits, scratch(workspace));
      with_element(shape_.dtype, [&]<class T>(T) {
        cross_entropy_loss_and_gradient(handle_of(stream), call(logits, targets, losses, begin),
                                        dlogits.as<T>(), scalars);
      });
      products.backward_input(stream, dlogits, w, dx.rows(begin, count), scratch(workspace));
      products.backward_weight(stream, dlogits, x.rows(begin, count), dw, scratch(workspace));
    });
  }

  void logits(Stream& stream, Tensor x, Tensor w, Tensor logits, Tensor workspace) override {
    const int64_t tokens = logits.shape[0];
    math::check_head_logits(shape_, x, w, logits, workspace, workspace_bytes());
    int64_t begin = 0;
    for (size_t i = generation_; i < products_.size(); ++i) {
      const int64_t count = products_[i].tokens;
      for (; begin + count <= tokens; begin += count) {
        products_[i].products->logits(stream, x.rows(begin, count), w.rows(0, shape_.vocab),
                                      logits.rows(begin, count), scratch(workspace));
      }
    }
  }

 private:
  struct BlockProducts {
    int64_t tokens;
    std::unique_ptr<HeadProducts> products;
  };

  CrossEntropy call(const Tensor& logits, const Tensor& targets, const Tensor& losses, int64_t begin) const {
    return {.logits = logits.as<const float>(),
            .targets = targets.as<const int32_t>() + begin,
            .losses = losses.as<float>() + begin,
            .tokens = logits.shape[0],
            .rows = shape_.rows,
            .vocab = shape_.vocab};
  }

  Tensor scratch(const Tensor& workspace) const {
    return {workspace.as<char>() + scratch_offset_, DType::u8, {static_cast<int64_t>(scratch_bytes_)}};
  }

  /// body(first token, number of tokens, products) over the blocks, ascending.
  template <class Body>
  void each_block(const Body& body) {
    for (int64_t begin = 0; begin < shape_.tokens; begin += block_) {
      const int64_t count = std::min(block_, shape_.tokens - begin);
      body(begin, count, *products_[count == block_ ? 0 : 1].products);
    }
  }

  HeadShape shape_;
  int64_t block_;
  std::vector<BlockProducts> products_;  ///< of a whole block, of the rest if there is one, for generation
  size_t generation_ = 0;                ///< the first of those for generation
  size_t gradient_offset_ = 0;  ///< in the workspace, after the logits: narrow gradients of the logits
  size_t scratch_offset_ = 0;
  size_t scratch_bytes_ = 0;
};

class CudaHeads final : public math::Head {
 public:
  CudaHeads(MakeHeadProducts make_products, int64_t logits_bytes)
      : make_products_(std::move(make_products)), logits_bytes_(logits_bytes) {}

  math::Support supports(const HeadShape& shape) const override {
    if (math::Support sizes = math::supports_head_sizes(shape); !sizes) return sizes;
    return supports_element(shape.dtype);
  }

  std::unique_ptr<math::HeadPlan> plan(const HeadShape& shape) override {
    if (const math::Support support = supports(shape); !support) throw DeviceError("head: " + support.reason);
    return std::make_unique<CudaHead>(shape, make_products_, logits_bytes_);
  }

 private:
  MakeHeadProducts make_products_;
  int64_t logits_bytes_;
};

}  // namespace

std::unique_ptr<math::Head> make_head(MakeHeadProducts make_products, int64_t logits_bytes) {
  return std::make_unique<CudaHeads>(std::move(make_products), logits_bytes);
}

}  // namespace penstock::cuda
