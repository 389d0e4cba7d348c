#include "kernels/transport/nccl/nccl_call.h"

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {
namespace {

const char* advice(ncclResult_t result) {
  switch (result) {
    case ncclUnhandledCudaError:
      return "; an earlier error of this GPU, or a driver too old for this NCCL: comm.nccl = {NCCL_DEBUG = "
             "\"WARN\"} says which";
    case ncclSystemError:
      return "; a system call or the network failed: comm.nccl = {NCCL_DEBUG = \"INFO\"} says which, "
             "NCCL_SOCKET_IFNAME chooses the interface";
    case ncclInvalidUsage:
      return "; NCCL takes one rank a GPU: start fewer ranks, or one process for all of them with "
             "comm.transport = \"inproc\" and parallel.share_devices = true";
    case ncclRemoteError:
      return "; a peer left or lost its connection: its log says why";
    default:
      return "";
  }
}

}  // namespace

std::string nccl_error_text(ncclResult_t result) {
  return fmt::format("{} (code {}){}", ncclGetErrorString(result), static_cast<int>(result), advice(result));
}

void throw_nccl_error(const char* call, ncclResult_t result, const std::string& doing) {
  throw DeviceError(fmt::format("{}: {}: {}", doing, call, nccl_error_text(result)));
}

}  // namespace penstock::transport
