#include <cstdint>
#include <memory>

#include "kernels/cuda/head.h"
#include "kernels/cuda/with_element.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing::under_test {
namespace {

/// A head's products as plain loops, at once.
class PlainProducts final : public cuda::HeadProducts {
 public:
  size_t workspace_bytes() const override { return 64; }

  void logits(Stream& /*stream*/, Tensor x, Tensor w, Tensor logits, Tensor /*workspace*/) override {
    with_element(x.dtype, [&]<class T>(T) {
      each(
          logits, x.shape[1],
          [&](int64_t n, int64_t v, int64_t c) { return at<T>(x, n, c) * at<T>(w, v, c); },
          [&](int64_t i, double sum) { logits.as<float>()[i] = static_cast<float>(sum); });
    });
  }
  void backward_input(Stream& /*stream*/, Tensor dlogits, Tensor w, Tensor dx,
                      Tensor /*workspace*/) override {
    with_element(dx.dtype, [&]<class T>(T) {
      each(
          dx, w.shape[0],
          [&](int64_t n, int64_t c, int64_t v) { return at<T>(dlogits, n, v) * at<T>(w, v, c); },
          [&](int64_t i, double sum) { dx.as<T>()[i] = T(static_cast<float>(sum)); });
    });
  }
  void backward_weight(Stream& /*stream*/, Tensor dlogits, Tensor x, Tensor dw,
                       Tensor /*workspace*/) override {
    with_element(x.dtype, [&]<class T>(T) {
      each(
          dw, x.shape[0],
          [&](int64_t v, int64_t c, int64_t n) { return at<T>(dlogits, n, v) * at<T>(x, n, c); },
          [&](int64_t i, double sum) { dw.as<float>()[i] += static_cast<float>(sum); });
    });
  }

 private:
  template <class T>
  static double at(const Tensor& x, int64_t row, int64_t column) {
    return static_cast<double>(static_cast<float>(x.as<const T>()[row * x.shape[1] + column]));
  }
  /// put(i, Σ over k of term(row, column, k)) for every element i of out.
  template <class Term, class Put>
  static void each(const Tensor& out, int64_t depth, const Term& term, const Put& put) {
    for (int64_t i = 0; i < out.elements(); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += term(i / out.shape[1], i % out.shape[1], k);
      put(i, sum);
    }
  }
};

}  // namespace

std::unique_ptr<math::Head> make_head(Device& /*device*/) {
  return cuda::make_head([](const math::HeadShape&) { return std::make_unique<PlainProducts>(); }, 1);
}

}  // namespace penstock::testing::under_test
