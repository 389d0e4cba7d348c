// Matrix products of the models, and attention both ways: operations a second against a large product's.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/cudnn_attention.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace penstock::bench {
namespace {

struct Product {
  const char* name;
  int64_t in;
  int64_t out;
};

void measure_linear(GpuBench& bench, const Product& product) {
  const int64_t tokens = bench.tiny() ? 16 : 32768;
  const auto [name, in, out] = product;
  const auto linear = bench.math().gemm->plan_linear({tokens, in, out, DType::bf16, false});
  const Tensor x = bench.tensor("x", DType::bf16, {tokens, in});
  const Tensor w = bench.tensor("w", DType::bf16, {out, in});
  const Tensor y = bench.tensor("y", DType::bf16, {tokens, out});
  const Tensor dw = bench.tensor("dw", DType::fp32, {out, in});
  const Tensor workspace = bench.workspace(linear->workspace_bytes());
  const double flop = 2 * static_cast<double>(tokens) * static_cast<double>(in) * static_cast<double>(out);
  const std::string shape = fmt::format("{} x {} to {}", tokens, in, out);
  bench.row(fmt::format("{}, forward", name), shape, Roof::product, flop,
            [&] { linear->forward(bench.stream(), x, w, {}, y, workspace); });
  bench.row(fmt::format("{}, input gradient", name), shape, Roof::product, flop,
            [&] { linear->backward_input(bench.stream(), y, w, x, workspace); });
  bench.row(fmt::format("{}, weight gradient", name), shape, Roof::product, flop,
            [&] { linear->backward_weight(bench.stream(), y, x, dw, workspace); });
  bench.forget_tensors();
}

void measure_head(GpuBench& bench, int64_t hidden, int64_t vocab) {
  const int64_t tokens = bench.tiny() ? 16 : 32768;
  const int64_t rows = (vocab + 127) / 128 * 128;
  const auto plan = bench.math().head->plan({tokens, hidden, rows, vocab, DType::bf16});
  const math::StepScalars scalars;
  const auto* const there =
      static_cast<const math::StepScalars*>(bench.copy_of("scalars", &scalars, sizeof(scalars)));
  const Tensor x = bench.tensor("x", DType::bf16, {tokens, hidden});
  const Tensor w = bench.tensor("w", DType::bf16, {rows, hidden});
  const Tensor targets = bench.indices("targets", tokens, vocab);
  const Tensor losses = bench.tensor("losses", DType::fp32, {tokens});
  const Tensor dx = bench.tensor("dx", DType::bf16, {tokens, hidden});
  const Tensor dw = bench.tensor("dw", DType::fp32, {rows, hidden});
  const Tensor workspace = bench.workspace(plan->workspace_bytes());
  const double flop =
      6 * static_cast<double>(tokens) * static_cast<double>(hidden) * static_cast<double>(vocab);
  bench.row(
      "head, loss and gradients", fmt::format("{} x {} to {}", tokens, hidden, vocab), Roof::product, flop,
      [&] { plan->loss_and_backward(bench.stream(), x, w, targets, there, losses, dx, dw, workspace); });
  bench.forget_tensors();
}

void measure_attention_of(GpuBench& bench, const std::string& kind, math::Attention& attention,
                          const math::AttentionShape& s) {
  const std::string shape =
      fmt::format("{} x {}, {}/{} heads of {}", s.batch, s.tokens, s.heads, s.kv_heads, s.head_dim);
  const math::Support support = attention.supports(s);
  if (!support) {
    bench.absent(kind, shape, support.reason);
    return;
  }
  const auto plan = attention.plan(s);
  const int64_t tokens = s.batch * s.tokens;
  const Shape qkv_shape{tokens, (s.heads + 2 * s.kv_heads) * s.head_dim};
  const Tensor qkv = bench.tensor("qkv", DType::bf16, qkv_shape);
  const Tensor dqkv = bench.tensor("dqkv", DType::bf16, qkv_shape);
  const Tensor out = bench.tensor("out", DType::bf16, {tokens, s.heads * s.head_dim});
  const Tensor dout = bench.tensor("dout", DType::bf16, {tokens, s.heads * s.head_dim});
  const Tensor lse = bench.tensor("lse", DType::fp32, {s.batch, s.heads, s.tokens});
  const Tensor workspace = bench.workspace(plan->workspace_bytes());
  // Scores and weighted values, of the keys that a causal token sees; twice that and the scores again
  // backward.
  const double flop =
      4 * static_cast<double>(tokens * s.heads * s.head_dim) * (static_cast<double>(s.tokens + 1) / 2);
  bench.row(kind + ", forward", shape, Roof::product, flop,
            [&] { plan->forward(bench.stream(), qkv, {}, out, lse, workspace); });
  bench.row(kind + ", backward", shape, Roof::product, 2.5 * flop,
            [&] { plan->backward(bench.stream(), dout, qkv, {}, out, lse, dqkv, workspace); });
  bench.forget_tensors();
}

}  // namespace

void measure_products(GpuBench& bench) {
  std::vector<Product> products = {
      {"124M qkv", 768, 2304},           {"124M attention out", 768, 768}, {"124M up", 768, 3072},
      {"124M down", 3072, 768},          {"0.5B qkv", 896, 1152},          {"0.5B gate and up", 896, 9728},
      {"0.5B down", 4864, 896},          {"1.5B qkv", 1536, 2048},         {"1.5B out", 1536, 1536},
      {"1.5B gate and up", 1536, 17920}, {"1.5B down", 8960, 1536}};
  if (bench.tiny()) products = {{"tiny", 16, 24}};
  for (const Product& product : products) measure_linear(bench, product);
  std::vector<std::pair<int64_t, int64_t>> heads = {{768, 50257}, {896, 151936}, {1536, 151936}};
  if (bench.tiny()) heads = {{16, 60}};
  for (const auto& [hidden, vocab] : heads) measure_head(bench, hidden, vocab);
}

void measure_attention(GpuBench& bench) {
  std::vector<math::AttentionShape> shapes;
  for (const int64_t length : {1024, 4096}) {
    for (const auto& [heads, kv_heads, head_dim] :
         {std::array<int64_t, 3>{12, 12, 64}, {14, 2, 64}, {12, 2, 128}}) {
      shapes.push_back({32768 / length, length, heads, kv_heads, head_dim, DType::bf16});
    }
  }
  if (bench.tiny()) shapes = {{1, 16, 2, 1, 16, DType::bf16}};
  const auto native = cuda::make_attention(bench.device());
  const cuda::OptionalAttention cudnn = cuda::make_cudnn_attention(bench.device());
  for (const math::AttentionShape& shape : shapes) {
    if (cudnn.attention) {
      measure_attention_of(bench, "attention by cuDNN", *cudnn.attention, shape);
    } else {
      bench.absent("attention by cuDNN", fmt::format("heads of {}", shape.head_dim), cudnn.description);
    }
    measure_attention_of(bench, "built-in attention", *native, shape);
  }
}

}  // namespace penstock::bench
