#pragma once

#include <memory>
#include <string>

#include "kernels/device/device.h"
#include "kernels/math/attention.h"

namespace penstock::cuda {

struct OptionalAttention {
  std::unique_ptr<math::Attention> attention;  ///< may be absent
  std::string description;                     ///< what it is: "cuDNN 9.19.0"; or why it is absent
};

/// cuDNN's attention, forward and deterministic backward, for bf16, where this build has it and the library
/// starts. One of two implementations: cudnn/, or cudnn_absent/ where there were no headers to build it with.
/// `device` outlives it and is the calling thread's current one. Its plans take no `starts` (UsageError):
/// cuDNN has masks for documents of lengths that the host knows, ours stand in device memory.
OptionalAttention make_cudnn_attention(Device& device);

}  // namespace penstock::cuda
