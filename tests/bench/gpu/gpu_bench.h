#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/cuda/stream_handle.h"
#include "kernels/device/device.h"
#include "kernels/math/math.h"

namespace penstock::bench {

/// What a row's rate is measured against: bytes moved, or floating-point operations done.
enum class Roof : uint8_t { copy, product };

/// A GPU with its math, tensors and a table of what its kernels reach. The roofs, a large copy and a large
/// bf16 product, are measured when it is made.
class GpuBench {
 public:
  /// `tiny`: sizes for a rehearsal, where nothing is worth timing.
  explicit GpuBench(bool tiny);
  ~GpuBench();
  GpuBench(const GpuBench&) = delete;
  GpuBench& operator=(const GpuBench&) = delete;

  bool tiny() const { return tiny_; }
  Device& device() { return *device_; }
  math::Math& math() { return math_; }
  Stream& stream() { return *stream_; }
  cuda::StreamHandle handle();

  /// Normally distributed values (fp32, bf16), else zeros. Lives until forget_tensors().
  Tensor tensor(const std::string& name, DType dtype, const Shape& shape);
  /// i32, uniform in [0, below).
  Tensor indices(const std::string& name, int64_t count, int64_t below);
  /// `bytes` of the host's, copied.
  void* copy_of(const std::string& name, const void* bytes, size_t count);
  /// Absent for 0 bytes.
  Tensor workspace(size_t bytes);
  void forget_tensors();

  /// Times one call of `enqueue`, and prints a row: `amount` bytes read and written, or operations done.
  void row(const std::string& name, const std::string& shape, Roof roof, double amount,
           const std::function<void()>& enqueue);
  /// A row that could not be: why.
  void absent(const std::string& name, const std::string& shape, const std::string& why);

  /// {"device", "copy_bytes_per_second", "product_flop_per_second", "rows": [{name, shape, microseconds,
  /// roof, rate, share}, …]}.
  const nlohmann::json& result() const { return result_; }

 private:
  double seconds(const std::function<void()>& enqueue);
  void measure_roofs();

  struct Timer;
  bool tiny_;
  std::unique_ptr<Device> device_;
  math::Math math_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<HostMemory> numbers_;  ///< what tensors are filled with
  std::unique_ptr<Timer> timer_;
  Tensor flush_;
  std::array<double, 2> roofs_{};  ///< by Roof
  nlohmann::json result_;
};

/// The tables. Shapes are those of GPT-2 124M and of models of 0.5 and 1.5 billion parameters, with 32768
/// tokens.
void measure_memory_kernels(GpuBench& bench);
void measure_optimizer_and_loss(GpuBench& bench);
void measure_products(GpuBench& bench);
void measure_attention(GpuBench& bench);

}  // namespace penstock::bench
