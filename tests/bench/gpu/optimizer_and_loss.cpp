// Embedding, cross-entropy, AdamW and the sums over gradients: their rate against a large copy's, of the
// fewest bytes that the operation needs.
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/cross_entropy_kernels.h"
#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/device/bfloat16.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace penstock::bench {
namespace {

void measure_embedding(GpuBench& bench) {
  const int64_t tokens = bench.tiny() ? 8 : 32768;
  const int64_t vocab = bench.tiny() ? 20 : 151936;
  const int64_t channels = bench.tiny() ? 16 : 1536;
  math::Embedding& embedding = *bench.math().embedding;
  const Tensor index = bench.indices("tokens", tokens, vocab);
  const Tensor table = bench.tensor("table", DType::bf16, {vocab, channels});
  const Tensor gradient = bench.tensor("gradient", DType::fp32, {vocab, channels});
  const Tensor y = bench.tensor("y", DType::bf16, {tokens, channels});
  const std::string shape = fmt::format("{} of {} x {}", tokens, vocab, channels);
  const double bytes = static_cast<double>(tokens * channels) * 2;
  bench.row("embedding forward", shape, Roof::copy, 2 * bytes,
            [&] { embedding.forward(bench.stream(), index, {}, table, {}, y); });
  // Each row of the gradient that occurs is read and written once, in fp32.
  const double share_of_rows = 1 - std::pow(1 - 1 / static_cast<double>(vocab), static_cast<double>(tokens));
  const double rows = share_of_rows * static_cast<double>(vocab * channels) * 8;
  bench.row("embedding backward", shape, Roof::copy, bytes + rows,
            [&] { embedding.backward(bench.stream(), y, index, {}, gradient, {}); });
  bench.forget_tensors();
}

void measure_cross_entropy(GpuBench& bench) {
  const int64_t tokens = bench.tiny() ? 4 : 4096;
  for (const int64_t vocab : bench.tiny() ? std::vector<int64_t>{30} : std::vector<int64_t>{50257, 151936}) {
    const int64_t rows = (vocab + 127) / 128 * 128;
    const math::StepScalars scalars;
    const auto* const there =
        static_cast<const math::StepScalars*>(bench.copy_of("scalars", &scalars, sizeof(scalars)));
    const Tensor logits = bench.tensor("logits", DType::fp32, {tokens, rows});
    const Tensor gradient = bench.tensor("gradient", DType::bf16, {tokens, rows});
    const Tensor targets = bench.indices("targets", tokens, vocab);
    const Tensor losses = bench.tensor("losses", DType::fp32, {tokens});
    const cuda::CrossEntropy call{.logits = logits.as<const float>(),
                                  .targets = targets.as<const int32_t>(),
                                  .losses = losses.as<float>(),
                                  .tokens = tokens,
                                  .rows = rows,
                                  .vocab = vocab};
    const double elements = static_cast<double>(tokens * rows);
    const std::string shape = fmt::format("fp32 {} x {}", tokens, vocab);
    bench.row("cross-entropy", shape, Roof::copy, 4 * elements,
              [&] { cuda::cross_entropy_loss(bench.handle(), call); });
    bench.row("cross-entropy and gradient", shape, Roof::copy, 6 * elements, [&] {
      cuda::cross_entropy_loss_and_gradient(bench.handle(), call, gradient.as<bfloat16>(), there);
    });
    bench.forget_tensors();
  }
}

void measure_optimizer(GpuBench& bench) {
  const int64_t parameters = bench.tiny() ? 3 : 28 * 7;  // tensors of a model of 1.5 billion parameters
  const int64_t elements = bench.tiny() ? 100 : int64_t{2} << 20;
  const math::StepScalars scalars{.learning_rate = 1e-4F, .bias_correction1 = 0.1F, .bias_correction2 = 0.1F};
  const auto* const there =
      static_cast<const math::StepScalars*>(bench.copy_of("scalars", &scalars, sizeof(scalars)));
  std::vector<cuda::AdamWTensor> tensors;
  for (int64_t i = 0; i < parameters; ++i) {
    const auto fp32 = [&](const char* name) {
      return bench.tensor(name, DType::fp32, {elements}).as<float>();
    };
    tensors.push_back({.parameter = fp32("parameter"),
                       .gradient = fp32("gradient"),
                       .moment1 = fp32("moment1"),
                       .moment2 = fp32("moment2"),
                       .copy = bench.tensor("copy", DType::bf16, {elements}).as<bfloat16>(),
                       .elements = elements,
                       .weight_decay = 0.1F,
                       .identity = static_cast<uint32_t>(i)});
  }
  const double count = static_cast<double>(parameters * elements);
  const std::string shape = fmt::format("{} tensors of {}", parameters, elements);
  for (const bool stochastic : {false, true}) {
    const cuda::AdamWStep step{.beta1 = 0.9F,
                               .beta2 = 0.95F,
                               .epsilon = 1e-8F,
                               .scalars = there,
                               .stochastic_rounding = stochastic,
                               .seed = 1};
    bench.row(stochastic ? "AdamW, stochastic rounding" : "AdamW", shape, Roof::copy, 30 * count,
              [&] { cuda::adamw(bench.handle(), tensors, step); });
  }
  bench.forget_tensors();
}

void measure_sums(GpuBench& bench) {
  const int64_t count = bench.tiny() ? 5000 : int64_t{1} << 28;
  math::Reduce& reduce = *bench.math().reduce;
  const Tensor x = bench.tensor("x", DType::fp32, {count});
  const Tensor blocks = bench.tensor("blocks", DType::fp64, {math::norm_blocks(count)});
  const Tensor bad = bench.tensor("bad", DType::i64, {1});
  const std::string shape = fmt::format("fp32 {}", count);
  bench.row("squares", shape, Roof::copy, 4 * static_cast<double>(count),
            [&] { reduce.squares(bench.stream(), x, blocks); });
  bench.row("count of NaN and infinity", shape, Roof::copy, 4 * static_cast<double>(count),
            [&] { reduce.count_nonfinite(bench.stream(), x, bad.as<int64_t>()); });
  bench.row("zeros", shape, Roof::copy, 4 * static_cast<double>(count),
            [&] { bench.stream().fill_zero(x.data, x.bytes()); });
  bench.forget_tensors();
}

}  // namespace

void measure_optimizer_and_loss(GpuBench& bench) {
  measure_embedding(bench);
  measure_cross_entropy(bench);
  measure_optimizer(bench);
  measure_sums(bench);
}

}  // namespace penstock::bench
