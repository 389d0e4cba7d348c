#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/device/device.h"
#include "kernels/device/dtype.h"
#include "kernels/device/stream_failure.h"

namespace penstock::transport {

enum class Reduction : uint8_t;

/// output[to + i] of every output = inputs[0][from + i] ∘ inputs[1][from + i] ∘ …, from the left, for i in
/// [0, count); an output may be an input where from = to. bf16 and fp16 are combined in fp32 and rounded
/// once.
struct Combination {
  DType dtype = DType::fp32;
  Reduction reduction{};
  std::span<const void* const> inputs;
  int64_t from = 0;
  std::span<void* const> outputs;
  int64_t to = 0;
  int64_t count = 0;
};

/// What a world needs of a rank's device to move data that the host does not touch. Not needed for the
/// processor's streams.
struct DeviceAccess {
  Device* device = nullptr;
  /// Enqueues the combination on a stream of this device; the spans end with the call. DeviceError for more
  /// ranks than it takes.
  std::function<void(Stream&, const Combination&)> combine;
  /// Lets this device read the memory of `peer`, of another rank of this process. DeviceError if it cannot.
  std::function<void(const Device& peer)> reach;
  /// Where to report that a stream's work has come to nothing.
  std::function<const std::shared_ptr<StreamFailure>&(Stream&)> failure_of;
};

}  // namespace penstock::transport
