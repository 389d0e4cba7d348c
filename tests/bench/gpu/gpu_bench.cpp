#include "tests/bench/gpu/gpu_bench.h"

#include <algorithm>
#include <cstring>
#include <random>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "kernels/backend/cuda_backend.h"
#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/bfloat16.h"

namespace penstock::bench {
namespace {

constexpr int64_t number_count = int64_t{1} << 20;
/// Larger than any level-2 cache.
constexpr size_t flush_bytes = size_t{256} << 20;
constexpr size_t arena_bytes = size_t{24} << 30;

const char* name_of(Roof roof) {
  return roof == Roof::copy ? "copy" : "product";
}

}  // namespace

/// CUDA's own events around the work.
struct GpuBench::Timer {
  Timer() {
    for (cudaEvent_t* event : {&start, &end}) {
      cuda::check(cudaEventCreate(event), [] { return "making an event that times kernels"; });
    }
  }
  ~Timer() {
    for (cudaEvent_t event : {start, end}) {
      cuda::report(cudaEventDestroy(event), [] { return "destroying an event"; });
    }
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  static void record(cudaEvent_t event, cuda::StreamHandle stream) {
    cuda::check(cudaEventRecord(event, stream), [] { return "recording an event that times kernels"; });
  }

  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
};

GpuBench::GpuBench(bool tiny) : tiny_(tiny) {
  CudaBackend backend = make_cuda_backend({});
  device_ = std::move(backend.device);
  math_ = std::move(backend.math);
  stream_ = device_->create_stream("compute", StreamUse::compute);
  timer_ = std::make_unique<Timer>();
  // Not the workspace: products may be planned by timing, which needs that.
  device_->create_arena(ArenaTag::activations, tiny ? size_t{64} << 20 : arena_bytes);
  numbers_ = device_->create_host_memory("random numbers", static_cast<size_t>(number_count) * 6);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto* const fp32 = numbers_->as<float>();
  auto* const bf16 = reinterpret_cast<bfloat16*>(fp32 + number_count);
  for (int64_t i = 0; i < number_count; ++i) {
    fp32[i] = normal(random);
    bf16[i] = bfloat16(fp32[i]);
  }
  forget_tensors();
  result_["device"] = device_->description();
  measure_roofs();
}

GpuBench::~GpuBench() = default;

cuda::StreamHandle GpuBench::handle() {
  return cuda::handle_of(*stream_);
}

void GpuBench::forget_tensors() {
  Arena& arena = device_->arena(ArenaTag::activations);
  stream_->synchronize();
  arena.reset();
  const auto bytes = static_cast<int64_t>(tiny_ ? size_t{1} << 10 : flush_bytes);
  flush_ = arena.allocate("flush", DType::u8, Shape{bytes});
}

Tensor GpuBench::tensor(const std::string& name, DType dtype, const Shape& shape) {
  const Tensor made = device_->arena(ArenaTag::activations).allocate(name, dtype, shape);
  if (dtype != DType::fp32 && dtype != DType::bf16) {
    stream_->fill_zero(made.data, made.bytes());
    return made;
  }
  const auto* const from = numbers_->as<float>() + (dtype == DType::fp32 ? 0 : number_count);
  const size_t block = static_cast<size_t>(number_count) * size_of(dtype);
  for (size_t at = 0; at < made.bytes(); at += block) {
    stream_->copy(made.as<char>() + at, from, std::min(block, made.bytes() - at));
  }
  return made;
}

Tensor GpuBench::indices(const std::string& name, int64_t count, int64_t below) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int32_t> uniform(0, static_cast<int32_t>(below - 1));
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (int32_t& value : values) value = uniform(random);
  return {copy_of(name, values.data(), values.size() * sizeof(int32_t)), DType::i32, {count}};
}

void* GpuBench::copy_of(const std::string& name, const void* bytes, size_t count) {
  void* const made = device_->arena(ArenaTag::activations).allocate(name, count);
  const auto memory = device_->create_host_memory(name, count);
  std::memcpy(memory->data(), bytes, count);
  stream_->copy(made, memory->data(), count);
  stream_->synchronize();
  return made;
}

Tensor GpuBench::workspace(size_t bytes) {
  if (bytes == 0) return {};
  return device_->arena(ArenaTag::activations)
      .allocate("workspace", DType::u8, Shape{static_cast<int64_t>(bytes)});
}

/// The median of several calls, each with empty caches.
double GpuBench::seconds(const std::function<void()>& enqueue) {
  const int rounds = tiny_ ? 1 : 11;
  std::vector<float> milliseconds(static_cast<size_t>(rounds));
  enqueue();  // loads the kernel
  for (float& time : milliseconds) {
    stream_->fill_zero(flush_.data, flush_.bytes());
    Timer::record(timer_->start, handle());
    enqueue();
    Timer::record(timer_->end, handle());
    stream_->synchronize();
    cuda::check(cudaEventElapsedTime(&time, timer_->start, timer_->end),
                [] { return "reading how long a kernel took"; });
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return static_cast<double>(milliseconds[milliseconds.size() / 2]) * 1e-3;
}

void GpuBench::measure_roofs() {
  {
    const int64_t bytes = tiny_ ? 4096 : int64_t{2} << 30;
    const Tensor from = tensor("copy.from", DType::bf16, {bytes / 2});
    const Tensor to = tensor("copy.to", DType::bf16, {bytes / 2});
    roofs_[0] = 2.0 * static_cast<double>(bytes) /
                seconds([&] { stream_->copy(to.data, from.data, static_cast<size_t>(bytes)); });
    forget_tensors();
  }
  const int64_t extent = tiny_ ? 64 : 8192;
  const auto linear = math_.gemm->plan_linear({extent, extent, extent, DType::bf16, false});
  const Shape square{extent, extent};
  const Tensor x = tensor("roof.x", DType::bf16, square);
  const Tensor w = tensor("roof.w", DType::bf16, square);
  const Tensor y = tensor("roof.y", DType::bf16, square);
  const Tensor space = workspace(linear->workspace_bytes());
  const double cube = static_cast<double>(extent) * static_cast<double>(extent) * static_cast<double>(extent);
  roofs_[1] = 2 * cube / seconds([&] { linear->forward(*stream_, x, w, {}, y, space); });
  forget_tensors();
  result_["copy_bytes_per_second"] = roofs_[0];
  result_["product_flop_per_second"] = roofs_[1];
  result_["rows"] = nlohmann::json::array();
  fmt::print("{}\nlarge copy {:.0f} GB/s, product of {}³ in bf16 {:.1f} TFLOP/s\n\n", device_->description(),
             roofs_[0] / 1e9, extent, roofs_[1] / 1e12);
  fmt::print("{:<30} {:<30} {:>10} {:>15} {:>7}\n", "kernel", "shape", "µs", "rate", "share");
}

void GpuBench::row(const std::string& name, const std::string& shape, Roof roof, double amount,
                   const std::function<void()>& enqueue) {
  const double time = seconds(enqueue);
  const double rate = amount / time;
  const double share = rate / roofs_[static_cast<size_t>(roof)];
  result_["rows"].push_back({{"name", name},
                             {"shape", shape},
                             {"microseconds", time * 1e6},
                             {"roof", name_of(roof)},
                             {"rate", rate},
                             {"share", share}});
  const bool bytes = roof == Roof::copy;
  fmt::print("{:<30} {:<30} {:>10.1f} {:>7.{}f} {:<7} {:>5.1f} %\n", name, shape, time * 1e6,
             rate / (bytes ? 1e9 : 1e12), bytes ? 0 : 1, bytes ? "GB/s" : "TFLOP/s", share * 100);
}

void GpuBench::absent(const std::string& name, const std::string& shape, const std::string& why) {
  result_["rows"].push_back({{"name", name}, {"shape", shape}, {"absent", why}});
  fmt::print("{:<30} {:<30} absent: {}\n", name, shape, why);
}

}  // namespace penstock::bench
