// Kernels that move each byte once or twice: their rate against a large copy's. Bytes are the fewest that the
// operation needs, each input read and each output written once, so that what a kernel reads again counts
// against it.
#include <fmt/format.h>

#include "kernels/cuda/combine_kernels.h"
#include "kernels/cuda/norm_kernels.h"
#include "kernels/cuda/pointwise_kernels.h"
#include "kernels/device/bfloat16.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace penstock::bench {
namespace {

struct Sizes {
  explicit Sizes(GpuBench& bench)
      : tokens(bench.tiny() ? 4 : 32768),
        channels(bench.tiny() ? 32 : 1536),
        width(bench.tiny() ? 48 : 8960),
        activations(static_cast<double>(tokens * channels) * 2),
        shape(fmt::format("bf16 {} x {}", tokens, channels)) {}
  int64_t tokens;
  int64_t channels;
  int64_t width;
  double activations;  ///< bytes of a bf16 (tokens, channels)
  std::string shape;
};

void measure_norms(GpuBench& bench) {
  const Sizes at(bench);
  math::Norm& norm = *bench.math().norm;
  Stream& stream = bench.stream();
  const Shape full{at.tokens, at.channels};
  const Tensor x = bench.tensor("x", DType::bf16, full);
  const Tensor addend = bench.tensor("addend", DType::bf16, full);
  const Tensor sum = bench.tensor("sum", DType::bf16, full);
  const Tensor y = bench.tensor("y", DType::bf16, full);
  const Tensor weight = bench.tensor("weight", DType::fp32, {at.channels});
  const Tensor bias = bench.tensor("bias", DType::fp32, {at.channels});
  const Tensor mean = bench.tensor("mean", DType::fp32, {at.tokens});
  const Tensor rstd = bench.tensor("rstd", DType::fp32, {at.tokens});
  const double rows = static_cast<double>(at.tokens) * 4;
  constexpr float epsilon = 1e-5F;
  bench.row("layer norm forward", at.shape, Roof::copy, 2 * at.activations + 2 * rows,
            [&] { norm.layer_norm_forward(stream, x, weight, bias, epsilon, y, mean, rstd); });
  bench.row("RMS norm forward", at.shape, Roof::copy, 2 * at.activations + rows,
            [&] { norm.rms_norm_forward(stream, x, weight, epsilon, y, rstd); });
  bench.row("residual + layer norm", at.shape, Roof::copy, 4 * at.activations + 2 * rows, [&] {
    cuda::layer_norm_forward(bench.handle(), cuda::NormForward<bfloat16>{.x = x.as<bfloat16>(),
                                                                         .addend = addend.as<bfloat16>(),
                                                                         .sum = sum.as<bfloat16>(),
                                                                         .weight = weight.as<float>(),
                                                                         .bias = bias.as<float>(),
                                                                         .y = y.as<bfloat16>(),
                                                                         .mean = mean.as<float>(),
                                                                         .rstd = rstd.as<float>(),
                                                                         .rows = at.tokens,
                                                                         .channels = at.channels,
                                                                         .epsilon = epsilon});
  });
  bench.row("residual + RMS norm", at.shape, Roof::copy, 4 * at.activations + rows, [&] {
    cuda::rms_norm_forward(bench.handle(), cuda::NormForward<bfloat16>{.x = x.as<bfloat16>(),
                                                                       .addend = addend.as<bfloat16>(),
                                                                       .sum = sum.as<bfloat16>(),
                                                                       .weight = weight.as<float>(),
                                                                       .y = y.as<bfloat16>(),
                                                                       .rstd = rstd.as<float>(),
                                                                       .rows = at.tokens,
                                                                       .channels = at.channels,
                                                                       .epsilon = epsilon});
  });
  bench.row("layer norm backward", at.shape, Roof::copy, 4 * at.activations + 2 * rows,
            [&] { norm.layer_norm_backward(stream, x, addend, weight, mean, rstd, sum, y, weight, bias); });
  bench.row("RMS norm backward", at.shape, Roof::copy, 4 * at.activations + rows,
            [&] { norm.rms_norm_backward(stream, x, addend, weight, rstd, sum, y, weight); });
  bench.forget_tensors();
}

void measure_pointwise(GpuBench& bench) {
  const Sizes at(bench);
  math::Pointwise& pointwise = *bench.math().pointwise;
  Stream& stream = bench.stream();
  const Shape wide{at.tokens, at.width};
  const Tensor gate_up = bench.tensor("gate_up", DType::bf16, {at.tokens, 2 * at.width});
  const Tensor dgate_up = bench.tensor("dgate_up", DType::bf16, {at.tokens, 2 * at.width});
  const Tensor a = bench.tensor("a", DType::bf16, wide);
  const Tensor b = bench.tensor("b", DType::bf16, wide);
  const Tensor c = bench.tensor("c", DType::bf16, wide);
  const Tensor bias = bench.tensor("bias", DType::fp32, {at.width});
  const double bytes = static_cast<double>(at.tokens * at.width) * 2;
  const std::string shape = fmt::format("bf16 {} x {}", at.tokens, at.width);
  const auto row = [&](const char* name, double passes, const std::function<void()>& enqueue) {
    bench.row(name, shape, Roof::copy, passes * bytes, enqueue);
  };
  row("GELU forward", 2, [&] { pointwise.gelu_forward(stream, a, b); });
  row("GELU backward", 3, [&] { pointwise.gelu_backward(stream, a, b, c); });
  row("SwiGLU forward", 3, [&] { pointwise.swiglu_forward(stream, gate_up, a); });
  row("SwiGLU backward", 5, [&] { pointwise.swiglu_backward(stream, a, gate_up, dgate_up); });
  row("add", 3, [&] { pointwise.add(stream, a, b, c); });
  row("bias", 2,
      [&] { cuda::add_bias(bench.handle(), bias.as<const float>(), a.as<bfloat16>(), at.tokens, at.width); });
  row("bias backward", 1, [&] {
    cuda::backward_bias(bench.handle(), a.as<const bfloat16>(), bias.as<float>(), at.tokens, at.width);
  });
  const int64_t sequence = bench.tiny() ? 2 : 1024;
  const math::StepScalars scalars;
  const auto* const there =
      static_cast<const math::StepScalars*>(bench.copy_of("scalars", &scalars, sizeof(scalars)));
  const Tensor samples = bench.tensor("samples", DType::i64, {at.tokens / sequence});
  row("dropout", 2,
      [&] { pointwise.dropout(stream, a, samples, there, {.seed = 1, .site = 1, .probability = 0.1F}, b); });
  bench.forget_tensors();

  const Tensor fp32 = bench.tensor("fp32", DType::fp32, wide);
  const Tensor bf16 = bench.tensor("bf16", DType::bf16, wide);
  const auto cast = [&](const char* name, const Tensor& from, const Tensor& to) {
    bench.row(name, fmt::format("{} x {}", at.tokens, at.width), Roof::copy, 3 * bytes,
              [&] { pointwise.convert(stream, from, to); });
  };
  cast("cast fp32 to bf16", fp32, bf16);
  cast("cast bf16 to fp32", bf16, fp32);
  bench.forget_tensors();
}

void measure_rope(GpuBench& bench) {
  const Sizes at(bench);
  const int64_t heads = bench.tiny() ? 2 : 12;
  const int64_t kv_heads = bench.tiny() ? 1 : 2;
  const int64_t head_dim = bench.tiny() ? 8 : 128;
  const int64_t positions = bench.tiny() ? 4 : 1024;
  const int64_t row = (heads + 2 * kv_heads) * head_dim;
  const Tensor qkv = bench.tensor("qkv", DType::bf16, {at.tokens, row});
  const Tensor out = bench.tensor("out", DType::bf16, {at.tokens, row});
  const Tensor where = bench.indices("positions", at.tokens, positions);
  const Tensor table = bench.tensor("table", DType::fp32, {positions, head_dim / 2, 2});
  const Tensor weight = bench.tensor("weight", DType::fp32, {head_dim});
  const Tensor rstd = bench.tensor("rstd", DType::fp32, {at.tokens, heads + kv_heads});
  const double bytes = static_cast<double>(at.tokens * head_dim) * 2;
  const std::string shape = fmt::format("{} x {}+{} heads of {}", at.tokens, heads, kv_heads, head_dim);
  const auto rotated = static_cast<double>(heads + kv_heads);
  const auto all = static_cast<double>(heads + 2 * kv_heads);
  bench.row("rotary embedding", shape, Roof::copy, 2 * rotated * bytes, [&] {
    bench.math().pointwise->rope(bench.stream(), qkv, where, table, heads + kv_heads, head_dim, false);
  });
  bench.row("head norm forward", shape, Roof::copy, 2 * all * bytes, [&] {
    bench.math().norm->head_norm_forward(bench.stream(), qkv, weight, weight, 1e-5F, heads, kv_heads, out,
                                         rstd);
  });
  bench.forget_tensors();
}

void measure_combine(GpuBench& bench) {
  const int64_t count = bench.tiny() ? 100 : int64_t{1} << 27;
  for (const int ranks : {2, 4}) {
    cuda::CombinePointers pointers;
    pointers.input_count = ranks;
    pointers.output_count = 1;
    for (int rank = 0; rank < ranks; ++rank) {
      pointers.inputs[rank] = bench.tensor("gradient", DType::fp32, {count}).data;
    }
    pointers.outputs[0] = bench.tensor("sum", DType::fp32, {count}).data;
    bench.row(fmt::format("sum of {} ranks", ranks), fmt::format("fp32 {}", count), Roof::copy,
              static_cast<double>((ranks + 1) * count) * 4,
              [&] { cuda::combine(bench.handle(), DType::fp32, pointers, cuda::Combine::sum, 0, 0, count); });
    bench.forget_tensors();
  }
}

}  // namespace

void measure_memory_kernels(GpuBench& bench) {
  measure_norms(bench);
  measure_pointwise(bench);
  measure_rope(bench);
  measure_combine(bench);
}

}  // namespace penstock::bench
