// Rates of the matrix products of GPT-2 124M (256 tokens) beside the roof, the rate of a large product on the
// same threads; the head with its loss; and the memory rate of AdamW. One and two threads, fp32 and bf16.
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"

namespace penstock::cpu {
namespace {

/// A device of some threads with a compute stream, and tensors of random small values.
class Bench {
 public:
  explicit Bench(int threads) {
    DeviceOptions options;
    options.threads = threads;
    device_ = make_cpu_device(options);
    stream_ = device_->create_stream("compute", StreamUse::compute);
    math_ = make_math(*device_);
  }

  math::Math& math() { return math_; }
  Stream& stream() { return *stream_; }
  Tensor tensor(DType dtype, const Shape& shape) {
    Tensor x(nullptr, dtype, shape);
    memory_.emplace_back(x.bytes() / sizeof(uint32_t) + alignment_bytes);
    auto address = reinterpret_cast<uintptr_t>(memory_.back().data());
    address = aligned(address);
    x.data = reinterpret_cast<void*>(address);
    // As fp32, and as pairs of bf16, these words are numbers of either sign between 2⁻⁷ and 2.
    std::minstd_rand numbers(7);
    const auto words = static_cast<int64_t>(x.bytes() / sizeof(uint32_t));
    for (int64_t i = 0; i < words; ++i) {
      const auto half = [&] { return ((numbers() & 0x83ffU) | 0x3c00U) & 0xffffU; };
      x.as<uint32_t>()[i] = half() << 16 | half();
    }
    return x;
  }
  Tensor workspace(size_t bytes) { return tensor(DType::u8, {static_cast<int64_t>(aligned(bytes + 1))}); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  math::Math math_;
  std::vector<std::vector<uint32_t>> memory_;
};

void report_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

struct LinearCase {
  const char* name;
  int64_t tokens;
  int64_t in;
  int64_t out;
};

enum class Pass : uint8_t { forward, backward_input, backward_weight, backward_bias };

void linear(benchmark::State& state, LinearCase shape, Pass pass, DType dtype) {
  Bench bench(static_cast<int>(state.range(0)));
  const math::LinearShape linear_shape{
      .tokens = shape.tokens, .in = shape.in, .out = shape.out, .dtype = dtype, .bias = true};
  if (const math::Support support = bench.math().gemm->supports(linear_shape); !support) {
    state.SkipWithError(support.reason.c_str());
    return;
  }
  const auto plan = bench.math().gemm->plan_linear(linear_shape);
  const Tensor x = bench.tensor(dtype, {shape.tokens, shape.in});
  const Tensor w = bench.tensor(dtype, {shape.out, shape.in});
  const Tensor y = bench.tensor(dtype, {shape.tokens, shape.out});
  const Tensor dw = bench.tensor(DType::fp32, {shape.out, shape.in});
  const Tensor bias = bench.tensor(DType::fp32, {shape.out});
  const Tensor workspace = bench.workspace(plan->workspace_bytes());
  const auto once = [&] {
    switch (pass) {
      case Pass::forward:
        return plan->forward(bench.stream(), x, w, bias, y, workspace);
      case Pass::backward_input:
        return plan->backward_input(bench.stream(), y, w, x, workspace);
      case Pass::backward_weight:
        return plan->backward_weight(bench.stream(), y, x, dw, workspace);
      case Pass::backward_bias:
        return plan->backward_bias(bench.stream(), y, bias);
    }
  };
  once();
  bench.stream().synchronize();
  for (auto _ : state) {
    once();
    bench.stream().synchronize();
  }
  const double columns = pass == Pass::backward_bias ? 0.5 : static_cast<double>(shape.in);
  report_flops(state, 2.0 * static_cast<double>(shape.tokens) * columns * static_cast<double>(shape.out));
}

void head(benchmark::State& state, DType dtype) {
  Bench bench(static_cast<int>(state.range(0)));
  const math::HeadShape shape{.tokens = 256, .hidden = 768, .rows = 50304, .vocab = 50257, .dtype = dtype};
  if (const math::Support support = bench.math().head->supports(shape); !support) {
    state.SkipWithError(support.reason.c_str());
    return;
  }
  const auto plan = bench.math().head->plan(shape);
  const Tensor x = bench.tensor(dtype, {shape.tokens, shape.hidden});
  const Tensor w = bench.tensor(dtype, {shape.rows, shape.hidden});
  const Tensor dw = bench.tensor(DType::fp32, {shape.rows, shape.hidden});
  const Tensor losses = bench.tensor(DType::fp32, {shape.tokens});
  const Tensor targets = bench.tensor(DType::i32, {shape.tokens});
  for (int64_t n = 0; n < shape.tokens; ++n)
    targets.as<int32_t>()[n] = static_cast<int32_t>(n * 97 % shape.vocab);
  const Tensor workspace = bench.workspace(plan->workspace_bytes());
  const math::StepScalars scalars{.gradient_scale = 1.0F / 256};
  for (auto _ : state) {
    plan->loss_and_backward(bench.stream(), x, w, targets, &scalars, losses, x, dw, workspace);
    bench.stream().synchronize();
  }
  report_flops(state, 6.0 * static_cast<double>(shape.tokens * shape.hidden * shape.rows));
}

/// Reads parameter, gradient and two moments, writes all but the gradient: 28 bytes an element.
void adamw(benchmark::State& state) {
  Bench bench(static_cast<int>(state.range(0)));
  constexpr int64_t count = int64_t{1} << 24;
  std::vector<Tensor> tensors;
  tensors.reserve(4);
  for (int i = 0; i < 4; ++i) tensors.push_back(bench.tensor(DType::fp32, {count}));
  for (int64_t i = 0; i < count; ++i) tensors[3].as<float>()[i] = 0.01F;
  const math::StepScalars scalars{.learning_rate = 1e-4F};
  for (auto _ : state) {
    bench.math().optimizer->adamw(bench.stream(), tensors[0], tensors[1], tensors[2], tensors[3], {}, {},
                                  &scalars);
    bench.stream().synchronize();
  }
  state.SetBytesProcessed(state.iterations() * count * 28);
}

void register_all() {
  const std::vector<LinearCase> cases = {{"roof_2048x2048x2048", 2048, 2048, 2048},
                                         {"qkv_768_2304", 256, 768, 2304},
                                         {"attention_out_768_768", 256, 768, 768},
                                         {"mlp_up_768_3072", 256, 768, 3072},
                                         {"mlp_down_3072_768", 256, 3072, 768}};
  const std::vector<std::pair<const char*, Pass>> passes = {{"forward", Pass::forward},
                                                            {"backward_input", Pass::backward_input},
                                                            {"backward_weight", Pass::backward_weight},
                                                            {"backward_bias", Pass::backward_bias}};
  const auto add = [](const std::string& name, const auto& body) {
    benchmark::RegisterBenchmark(name.c_str(), body)
        ->ArgName("threads")
        ->Arg(1)
        ->Arg(2)
        ->MeasureProcessCPUTime()
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const LinearCase& shape : cases) {
      for (const auto& [name, pass] : passes) {
        add(fmt::format("{}/{}/{}", shape.name, name, name_of(dtype)),
            [shape, pass = pass, dtype](benchmark::State& state) { linear(state, shape, pass, dtype); });
      }
    }
    add(fmt::format("head_768_50304/{}", name_of(dtype)),
        [dtype](benchmark::State& state) { head(state, dtype); });
  }
  add("adamw", adamw);
}

}  // namespace
}  // namespace penstock::cpu

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  penstock::cpu::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
