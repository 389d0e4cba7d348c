#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/cuda/gemm_plans.h"
#include "kernels/device/device.h"

namespace penstock::cuda {

struct GemmOptions {
  bool tf32 = false;  ///< round the inputs of fp32 products to TF32, for the tensor cores
  /// What an algorithm may ask for. 32 MiB: what NVIDIA recommends for Hopper.
  size_t workspace_limit = size_t{32} << 20;
  uint64_t driver_version = 0;  ///< of the plans' origin: cudaDriverGetVersion()
  /// How many of the algorithms that the library thinks best are timed, and the fastest taken; 1: its first,
  /// untimed. Timing needs the device's workspace arena, so it happens before that exists.
  int candidates = 1;
  /// One line a plan that is chosen.
  std::function<void(const std::string&)> log = {};
};

/// A product planned once and run many times. The bits of y depend on plan and inputs alone.
class GemmProduct {
 public:
  virtual ~GemmProduct() = default;
  /// Scratch memory of run().
  virtual size_t workspace_bytes() const = 0;
  /// Every pointer is device memory: matrices start at a row of a tensor that is aligned to 256 bytes, bias
  /// and workspace are aligned to 256 themselves; UsageError where an algorithm would not stand it.
  virtual void run(Stream& stream, const void* a, const void* b, const float* bias, void* y,
                   void* workspace) = 0;
};

/// cuBLASLt on one device. Sums over K are never split between blocks: one block owns an element of y and
/// adds in one order.
class GemmLibrary {
 public:
  /// `device` outlives it and is the calling thread's current one. DeviceError if the library does not start.
  static std::shared_ptr<GemmLibrary> create(Device& device, GemmOptions options);

  virtual ~GemmLibrary() = default;
  virtual const GemmOptions& options() const = 0;
  /// What was planned so far; adopt() a checkpoint's or agree_on_plans() before planning.
  virtual GemmPlans& plans() = 0;
  /// By the plan in plans(), or, unless they are sealed, by one that is chosen now and inserted there.
  /// DeviceError if no algorithm computes it, or the plan does not run here.
  virtual std::unique_ptr<GemmProduct> plan(const GemmShape& shape) = 0;
};

}  // namespace penstock::cuda
