// Attention, forward and backward, with its rate as a share of a large fp32 product's on as many threads.
// Operations counted: 4 D (forward) and 10 D (backward, scores recomputed) for each visible pair of a query
// and a key.
#include <benchmark/benchmark.h>

#include "kernels/cpu/attention.h"
#include "tests/bench/compute_lane.h"
#include "tests/bench/rates.h"

namespace penstock::bench {
namespace {

struct Arguments {
  explicit Arguments(const ::benchmark::State& state)
      : shape{.batch = 4,
              .tokens = state.range(0),
              .heads = 12,
              .kv_heads = state.range(2),
              .head_dim = state.range(1),
              .dtype = state.range(3) != 0 ? DType::bf16 : DType::fp32},
        threads(static_cast<int>(state.range(4))),
        lane(threads, size_t{1} << 30) {
    const int64_t n = shape.batch * shape.tokens;
    const int64_t row = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    plan = cpu::make_attention(lane.device())->plan(shape);
    qkv = lane.tensor("qkv", shape.dtype, {n, row});
    dqkv = lane.tensor("dqkv", shape.dtype, {n, row});
    out = lane.tensor("out", shape.dtype, {n, shape.heads * shape.head_dim});
    dout = lane.tensor("dout", shape.dtype, {n, shape.heads * shape.head_dim});
    lse = lane.tensor("lse", DType::fp32, {shape.batch, shape.heads, shape.tokens});
    workspace = lane.tensor("workspace", DType::u8, {static_cast<int64_t>(plan->workspace_bytes())});
  }
  void forward() {
    plan->forward(lane.stream(), qkv, {}, out, lse, workspace);
    lane.stream().synchronize();
  }
  void report(::benchmark::State& state, double operations_per_pair) const {
    const auto tokens = static_cast<double>(shape.tokens);
    const double pairs = static_cast<double>(shape.batch * shape.heads) * tokens * (tokens + 1) / 2;
    const double operations = pairs * operations_per_pair * static_cast<double>(shape.head_dim);
    using ::benchmark::Counter;
    const double done = operations * static_cast<double>(state.iterations());
    state.counters["FLOP/s"] = Counter(done, Counter::kIsRate);
    state.counters["of_matmul"] = Counter(done / matmul_rate(threads), Counter::kIsRate);
  }

  math::AttentionShape shape;
  int threads;
  ComputeLane lane;
  std::unique_ptr<math::AttentionPlan> plan;
  Tensor qkv, dqkv, out, dout, lse, workspace;
};

void attention_forward(::benchmark::State& state) {
  Arguments arguments(state);
  matmul_rate(arguments.threads);
  for ([[maybe_unused]] auto unused : state) arguments.forward();
  arguments.report(state, 4);
}

void attention_backward(::benchmark::State& state) {
  Arguments arguments(state);
  matmul_rate(arguments.threads);
  arguments.forward();
  for ([[maybe_unused]] auto unused : state) {
    arguments.plan->backward(arguments.lane.stream(), arguments.dout, arguments.qkv, {}, arguments.out,
                             arguments.lse, arguments.dqkv, arguments.workspace);
    arguments.lane.stream().synchronize();
  }
  arguments.report(state, 10);
}

void shapes(::benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"T", "D", "G", "bf16", "threads"})
      ->Unit(::benchmark::kMillisecond)
      ->MeasureProcessCPUTime()
      ->UseRealTime();
  for (const int64_t tokens : {64, 256, 1024}) bench->Args({tokens, 64, 12, 0, 1});
  bench->Args({256, 64, 12, 0, 2})
      ->Args({256, 64, 12, 1, 1})
      ->Args({256, 128, 3, 0, 1})
      ->Args({256, 80, 12, 0, 1});
}

BENCHMARK(attention_forward)->Apply(shapes);
BENCHMARK(attention_backward)->Apply(shapes);

}  // namespace
}  // namespace penstock::bench

BENCHMARK_MAIN();
