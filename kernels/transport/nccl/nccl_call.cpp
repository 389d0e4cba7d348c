#include "kernels/transport/nccl/nccl_call.h"

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {
namespace {

const char* advice(ncclResult_t result) {
  switch (result) {
    case ncclUnhandledCudaError:
      return "; an earlier error of this GPU, or a driver too old for this NCCL: NCCL_DEBUG=WARN in [comm.nccl] says";
    case ncclSystemError:
      return "; a system call or the network failed: NCCL_DEBUG=INFO in [comm.nccl] says which, NCCL_SOCKET_IFNAME "
             "chooses the interface";
    case ncclInvalidUsage:
      return "; NCCL takes one rank a GPU: fewer ranks, or comm.transport = \"inproc\" with parallel.share_devices";
    case ncclRemoteError:
      return "; a peer left or lost its connection: its log says why";
    default:
      return "";
  }
}

}  // namespace

void throw_nccl_error(const char* call, ncclResult_t result, const std::string& doing) {
  throw DeviceError(fmt::format("{}: {}: {} (code {}){}", doing, call, ncclGetErrorString(result),
                                static_cast<int>(result), advice(result)));
}

}  // namespace penstock::transport
