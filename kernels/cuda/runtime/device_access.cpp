#include "kernels/cuda/runtime/device_access.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/cuda/combine_kernels.h"
#include "kernels/cuda/runtime/gpu_choice.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/device/error.h"
#include "kernels/transport/communicator.h"

namespace penstock::cuda {
namespace {

Combine how(transport::Reduction reduction) {
  switch (reduction) {
    case transport::Reduction::maximum:
      return Combine::maximum;
    case transport::Reduction::minimum:
      return Combine::minimum;
    case transport::Reduction::sum:
      break;
  }
  return Combine::sum;
}

void combine_on(Stream& stream, const transport::Combination& call) {
  if (call.inputs.size() > CombinePointers::most) {
    throw DeviceError(
        fmt::format("{} ranks in one process; a reduction on GPUs takes {}: start several processes",
                    call.inputs.size(), CombinePointers::most));
  }
  CombinePointers pointers;
  std::copy(call.inputs.begin(), call.inputs.end(), pointers.inputs);
  std::copy(call.outputs.begin(), call.outputs.end(), pointers.outputs);
  pointers.input_count = static_cast<int>(call.inputs.size());
  pointers.output_count = static_cast<int>(call.outputs.size());
  combine(handle_of(stream), call.dtype, pointers, how(call.reduction), call.from, call.to, call.count);
}

}  // namespace

transport::DeviceAccess access_to(Device& device) {
  transport::DeviceAccess access;
  access.device = &device;
  access.combine = combine_on;
  access.reach = [gpu = device.options().index](const Device& peer) {
    enable_peer_access(gpu, peer.options().index);
  };
  access.failure_of = [](Stream& stream) -> const std::shared_ptr<StreamFailure>& {
    return CudaStream::of(stream).failure();
  };
  return access;
}

}  // namespace penstock::cuda
