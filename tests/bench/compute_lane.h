#pragma once

#include <memory>
#include <random>
#include <string_view>

#include "kernels/cpu/device.h"
#include "kernels/device/bfloat16.h"
#include "kernels/device/device.h"

namespace penstock::bench {

/// A CPU device with its compute stream and an arena for the tensors of one benchmark.
class ComputeLane {
 public:
  ComputeLane(int threads, size_t arena_bytes) : device_(cpu::make_cpu_device(options(threads))) {
    device_->create_arena(ArenaTag::workspace, arena_bytes);
    stream_ = device_->create_stream("compute", StreamUse::compute);
  }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  /// Normally distributed values (fp32 and bf16), zero otherwise.
  Tensor tensor(std::string_view name, DType dtype, const Shape& shape) {
    const Tensor made = device_->arena(ArenaTag::workspace).allocate(name, dtype, shape);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < made.elements(); ++i) {
      if (dtype == DType::fp32) made.as<float>()[i] = normal(numbers_);
      if (dtype == DType::bf16) made.as<bfloat16>()[i] = bfloat16(normal(numbers_));
      if (dtype == DType::i32) made.as<int32_t>()[i] = 0;
      if (dtype == DType::i64) made.as<int64_t>()[i] = 0;
    }
    return made;
  }

 private:
  static DeviceOptions options(int threads) {
    DeviceOptions made;
    made.threads = threads;
    return made;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::mt19937 numbers_{1};
};

}  // namespace penstock::bench
