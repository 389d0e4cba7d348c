// Element-wise operations and norms, with the bytes they read and write as a share of memcpy's rate on as
// many threads. Tensors of 64 MiB: nothing stays in the caches.
#include <benchmark/benchmark.h>

#include "kernels/cpu/norm.h"
#include "kernels/cpu/pointwise.h"
#include "tests/bench/compute_lane.h"
#include "tests/bench/rates.h"

namespace penstock::bench {
namespace {

constexpr int64_t tokens = 16384;
constexpr int64_t channels = 1024;

/// Runs `enqueue` and reports `passes` times the bytes of a (tokens, channels) tensor.
template <class Enqueue>
void measure(::benchmark::State& state, ComputeLane& lane, DType dtype, double passes,
             const Enqueue& enqueue) {
  const auto threads = static_cast<int>(state.range(1));
  const double roof = memory_rate(threads);
  for ([[maybe_unused]] auto unused : state) {
    enqueue();
    lane.stream().synchronize();
  }
  using ::benchmark::Counter;
  const double bytes = passes * static_cast<double>(tokens * channels) * static_cast<double>(size_of(dtype)) *
                       static_cast<double>(state.iterations());
  state.counters["B/s"] = Counter(bytes, Counter::kIsRate);
  state.counters["of_memcpy"] = Counter(bytes / roof, Counter::kIsRate);
}

enum class Operation : uint8_t {
  gelu_forward,
  gelu_backward,
  swiglu_forward,
  swiglu_backward,
  add,
  rope,
  dropout,
  layer_norm_forward,
  layer_norm_backward,
  rms_norm_forward,
  rms_norm_backward
};

template <Operation operation>
void run(::benchmark::State& state) {
  const DType dtype = state.range(0) != 0 ? DType::bf16 : DType::fp32;
  ComputeLane lane(static_cast<int>(state.range(1)), size_t{1} << 30);
  const auto pointwise = cpu::make_pointwise(lane.device());
  const auto norm = cpu::make_norm(lane.device());
  Stream& stream = lane.stream();
  const Tensor x = lane.tensor("x", dtype, {tokens, channels});
  const Tensor y = lane.tensor("y", dtype, {tokens, channels});
  const Tensor z = lane.tensor("z", dtype, {tokens, channels});
  const Tensor weight = lane.tensor("weight", DType::fp32, {channels});
  const Tensor bias = lane.tensor("bias", DType::fp32, {channels});
  const Tensor mean = lane.tensor("mean", DType::fp32, {tokens});
  const Tensor rstd = lane.tensor("rstd", DType::fp32, {tokens});
  const auto timed = [&](double passes, const auto& enqueue) {
    measure(state, lane, dtype, passes, enqueue);
  };
  if constexpr (operation == Operation::gelu_forward) {
    timed(2, [&] { pointwise->gelu_forward(stream, x, y); });
  } else if constexpr (operation == Operation::gelu_backward) {
    timed(3, [&] { pointwise->gelu_backward(stream, z, x, y); });
  } else if constexpr (operation == Operation::swiglu_forward) {
    const Tensor half(y.data, dtype, {tokens, channels / 2});
    timed(1.5, [&] { pointwise->swiglu_forward(stream, x, half); });
  } else if constexpr (operation == Operation::swiglu_backward) {
    const Tensor half(y.data, dtype, {tokens, channels / 2});
    timed(2.5, [&] { pointwise->swiglu_backward(stream, half, x, z); });
  } else if constexpr (operation == Operation::add) {
    timed(3, [&] { pointwise->add(stream, x, y, z); });
  } else if constexpr (operation == Operation::rope) {
    const Tensor positions = lane.tensor("positions", DType::i32, {tokens});
    const Tensor table = lane.tensor("table", DType::fp32, {1, 32, 2});
    timed(2, [&] { pointwise->rope(stream, y, positions, table, channels / 64, 64, false); });
  } else if constexpr (operation == Operation::dropout) {
    const math::StepScalars scalars;
    const Tensor samples = lane.tensor("samples", DType::i64, {16});
    timed(2, [&] {
      pointwise->dropout(stream, x, samples, &scalars, {.seed = 1, .site = 1, .probability = 0.1F}, y);
    });
  } else if constexpr (operation == Operation::layer_norm_forward) {
    timed(2, [&] { norm->layer_norm_forward(stream, x, weight, bias, 1e-5F, y, mean, rstd); });
  } else if constexpr (operation == Operation::layer_norm_backward) {
    // dy and x are read twice: for the gradients of weight and bias, and for dx.
    timed(5, [&] { norm->layer_norm_backward(stream, y, x, weight, mean, rstd, {}, z, weight, bias); });
  } else if constexpr (operation == Operation::rms_norm_forward) {
    timed(2, [&] { norm->rms_norm_forward(stream, x, weight, 1e-5F, y, rstd); });
  } else {
    timed(5, [&] { norm->rms_norm_backward(stream, y, x, weight, rstd, {}, z, weight); });
  }
}

void variants(::benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bf16", "threads"})
      ->Unit(::benchmark::kMillisecond)
      ->MeasureProcessCPUTime()
      ->UseRealTime();
  bench->Args({0, 1})->Args({1, 1})->Args({0, 2});
}

BENCHMARK(run<Operation::gelu_forward>)->Name("gelu_forward")->Apply(variants);
BENCHMARK(run<Operation::gelu_backward>)->Name("gelu_backward")->Apply(variants);
BENCHMARK(run<Operation::swiglu_forward>)->Name("swiglu_forward")->Apply(variants);
BENCHMARK(run<Operation::swiglu_backward>)->Name("swiglu_backward")->Apply(variants);
BENCHMARK(run<Operation::add>)->Name("add")->Apply(variants);
BENCHMARK(run<Operation::rope>)->Name("rope")->Apply(variants);
BENCHMARK(run<Operation::dropout>)->Name("dropout")->Apply(variants);
BENCHMARK(run<Operation::layer_norm_forward>)->Name("layer_norm_forward")->Apply(variants);
BENCHMARK(run<Operation::layer_norm_backward>)->Name("layer_norm_backward")->Apply(variants);
BENCHMARK(run<Operation::rms_norm_forward>)->Name("rms_norm_forward")->Apply(variants);
BENCHMARK(run<Operation::rms_norm_backward>)->Name("rms_norm_backward")->Apply(variants);

}  // namespace
}  // namespace penstock::bench

BENCHMARK_MAIN();
