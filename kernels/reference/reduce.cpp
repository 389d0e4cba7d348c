#include "kernels/reference/reduce.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/stream.h"
#include "kernels/math/check.h"
#include "kernels/reference/element.h"

namespace penstock::reference {
namespace {

using cpu::CpuStream;
using math::ArgumentCheck;

class ReferenceReduce final : public math::Reduce {
 public:
  void squares(Stream& stream, Tensor x, Tensor blocks) override {
    const int64_t count = math::norm_blocks(x.elements());
    ArgumentCheck("squares")
        .present("x", x, {DType::fp32, DType::fp64})
        .tensor("blocks", blocks, {count}, {DType::fp64});
    CpuStream::of(stream).enqueue("reference squares", [=] {
      for (int64_t block = 0; block < count; ++block) {
        const int64_t end = std::min(x.elements(), (block + 1) * math::norm_block);
        double sum = 0;
        for (int64_t i = block * math::norm_block; i < end; ++i) sum += load(x, i) * load(x, i);
        store(blocks, block, sum);
      }
    });
  }

  void sum(Stream& stream, Tensor values, double* out) override {
    ArgumentCheck("sum")
        .present("values", values, {DType::fp32, DType::fp64})
        .that(out != nullptr, "out is absent");
    CpuStream::of(stream).enqueue("reference sum", [=] {
      double total = 0;
      for (int64_t i = 0; i < values.elements(); ++i) total += load(values, i);
      *out = total;
    });
  }

  void global_norm(Stream& stream, Tensor sums, float clip_norm, math::StepScalars* scalars) override {
    ArgumentCheck("global_norm")
        .present("sums", sums, {DType::fp64})
        .that(scalars != nullptr, "scalars are absent");
    CpuStream::of(stream).enqueue("reference global_norm", [=] {
      double total = 0;
      for (int64_t i = 0; i < sums.elements(); ++i) total += load(sums, i);
      const double norm = std::sqrt(total) / static_cast<double>(scalars->loss_scale);
      double clip = 1;
      if (clip_norm > 0) clip = std::min(1.0, static_cast<double>(clip_norm) / (norm + 1e-6));
      scalars->gradient_norm = norm;
      scalars->clip_factor = static_cast<float>(clip / static_cast<double>(scalars->loss_scale));
      scalars->apply = std::isfinite(norm) ? 1 : 0;
    });
  }

  void count_nonfinite(Stream& stream, Tensor x, int64_t* out) override {
    ArgumentCheck("count_nonfinite")
        .present("x", x, {DType::fp32, DType::bf16, DType::fp16, DType::fp64})
        .that(out != nullptr, "out is absent");
    CpuStream::of(stream).enqueue("reference count_nonfinite", [=] {
      for (int64_t i = 0; i < x.elements(); ++i) *out += std::isfinite(load(x, i)) ? 0 : 1;
    });
  }
};

}  // namespace

std::unique_ptr<math::Reduce> make_reduce(Device& /*device*/) {
  return std::make_unique<ReferenceReduce>();
}

}  // namespace penstock::reference
