#include "tests/bench/product_stage.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <sched.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"

namespace penstock::bench {

namespace {

// 256 tokens, 512 → 512 channels: 134 MFLOP.
constexpr int64_t tokens = 256;
constexpr int64_t channels = 512;

}  // namespace

ProductStage::ProductStage(Device& device, const runtime::ReplayTimes& times, int stage,
                           const std::vector<WindowEnd>& windows, const Work& work, int core)
    : SleepingStage(device, times, stage, windows), math_(cpu::make_math(device)), work_(work), core_(core) {
  linear_ = math_.gemm->plan_linear({tokens, channels, channels, DType::fp32, false});
  Tensor* const tensors[] = {&x_, &w_, &y_, &workspace_};
  const Shape shapes[] = {{tokens, channels},
                          {channels, channels},
                          {tokens, channels},
                          {static_cast<int64_t>(linear_->workspace_bytes() + 1)}};
  size_t bytes = alignment_bytes;
  for (const Shape& shape : shapes) bytes += aligned(static_cast<size_t>(shape.elements()) * sizeof(float));
  memory_.assign(bytes, 0);
  auto* at = reinterpret_cast<char*>(aligned(reinterpret_cast<size_t>(memory_.data())));
  for (size_t i = 0; i < 4; ++i) {
    *tensors[i] = Tensor(at, i < 3 ? DType::fp32 : DType::u8, shapes[i]);
    at += aligned(static_cast<size_t>(shapes[i].elements()) * sizeof(float));
  }
}

void ProductStage::enqueue(Stream& stream, const char*, schedule::Op op, int) {
  if (!bound_) {
    stream.host_task("bind to a core", 0, [core = core_] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<size_t>(core), &set);
      static_cast<void>(sched_setaffinity(0, sizeof(set), &set));  // refused: the scheduler places it
    });
    bound_ = true;
  }
  const int count = op == schedule::Op::forward          ? work_.forward
                    : op == schedule::Op::backward_input ? work_.backward_input
                                                         : work_.backward_weight;
  for (int i = 0; i < count; ++i) linear_->forward(stream, x_, w_, {}, y_, workspace_);
}

double ProductStage::product_seconds() {
  const auto device = cpu::make_cpu_device({});
  const math::Math math = cpu::make_math(*device);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const auto linear = math.gemm->plan_linear({tokens, channels, channels, DType::fp32, false});
  std::vector<float> x(tokens * channels);
  std::vector<float> w(channels * channels);
  std::vector<float> y(tokens * channels);
  std::vector<char> workspace(linear->workspace_bytes() + 1);
  const Tensor scratch(workspace.data(), DType::u8, Shape{static_cast<int64_t>(workspace.size())});
  std::vector<double> seconds;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    linear->forward(*stream, Tensor(x.data(), DType::fp32, Shape{tokens, channels}),
                    Tensor(w.data(), DType::fp32, Shape{channels, channels}), {},
                    Tensor(y.data(), DType::fp32, Shape{tokens, channels}), scratch);
    stream->synchronize();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return *std::min_element(seconds.begin(), seconds.end());
}

}  // namespace penstock::bench
