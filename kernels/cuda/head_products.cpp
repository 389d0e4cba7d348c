#include "kernels/cuda/head_products.h"

#include <utility>

#include "kernels/cuda/linear_products.h"

namespace penstock::cuda {
namespace {

class LtHeadProducts final : public HeadProducts {
 public:
  LtHeadProducts(std::shared_ptr<GemmLibrary> library, const math::HeadShape& shape, bool with_gradients)
      : products_(std::move(library),
                  {.tokens = shape.tokens, .in = shape.hidden, .out = shape.rows, .dtype = shape.dtype},
                  DType::fp32, with_gradients) {}

  size_t workspace_bytes() const override { return products_.workspace_bytes(); }

  void logits(Stream& stream, Tensor x, Tensor w, Tensor logits, Tensor workspace) override {
    products_.forward().run(stream, x.data, w.data, nullptr, logits.data, workspace.data);
  }
  void backward_input(Stream& stream, Tensor dlogits, Tensor w, Tensor dx, Tensor workspace) override {
    products_.backward_input().run(stream, dlogits.data, w.data, nullptr, dx.data, workspace.data);
  }
  void backward_weight(Stream& stream, Tensor dlogits, Tensor x, Tensor dw, Tensor workspace) override {
    products_.backward_weight().run(stream, dlogits.data, x.data, nullptr, dw.data, workspace.data);
  }

 private:
  LinearProducts products_;
};

}  // namespace

MakeHeadProducts make_head_products(std::shared_ptr<GemmLibrary> library) {
  return [library = std::move(library)](const math::HeadShape& shape, bool with_gradients) {
    return std::make_unique<LtHeadProducts>(library, shape, with_gradients);
  };
}

}  // namespace penstock::cuda
