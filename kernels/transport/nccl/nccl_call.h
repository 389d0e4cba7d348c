#pragma once

#include <string>

#include <nccl.h>

namespace penstock::transport {

/// "remote process exited or there was a network error (code 6); a peer left …": what NCCL says, and what to
/// do.
std::string nccl_error_text(ncclResult_t result);

/// DeviceError: "<doing>: <call>: <nccl_error_text>".
[[noreturn]] void throw_nccl_error(const char* call, ncclResult_t result, const std::string& doing);

/// check_nccl("ncclSend", ncclSend(…), [&] { return …; }): the words are made on failure only. ncclInProgress
/// is no failure.
template <class Doing>
void check_nccl(const char* call, ncclResult_t result, const Doing& doing) {
  if (result != ncclSuccess && result != ncclInProgress) [[unlikely]]
    throw_nccl_error(call, result, doing());
}

}  // namespace penstock::transport
