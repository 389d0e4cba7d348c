#include "kernels/transport/nccl/nccl_shared.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/error.h"
#include "kernels/transport/nccl/nccl_call.h"

namespace penstock::transport {

NcclShared::NcclShared(int gpu, std::chrono::milliseconds patience)
    : gpu_(gpu),
      patience_(patience),
      interruption_(std::make_shared<Interruption>([this] {
        { const std::lock_guard lock(mutex_); wakes_ = true; }
        changed_.notify_all();
      })),
      thread_([this] { watch(); }) {}

NcclShared::~NcclShared() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void NcclShared::add(ncclComm_t comm, const Identity& who) {
  const std::lock_guard lock(mutex_);
  watched_.push_back({comm, &who, false});
}

bool NcclShared::remove(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(watched_.begin(), watched_.end(), [&](const Watched& one) { return one.comm == comm; });
  if (found == watched_.end()) return false;
  const bool usable = !found->aborted;
  watched_.erase(found);
  return usable;
}

void NcclShared::used_by(const std::shared_ptr<StreamFailure>& stream) {
  const std::lock_guard lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
}

void NcclShared::finish(ncclComm_t comm, const char* call, const std::string& doing) const {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) throw_nccl_error("ncclCommGetAsyncError", asked, doing);
    if (state == ncclSuccess) return;
    if (state != ncclInProgress) throw_nccl_error(call, state, doing);
    if (interruption_->stopped())
      throw DeviceError(fmt::format("{}: {} will not come to pass: {}", doing, call, interruption_->reason()));
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > patience_) {
      throw DeviceError(fmt::format(
          "{}: {} did not end within {} s: a rank is missing, or cannot be reached (NCCL_DEBUG=INFO in [comm.nccl])",
          doing, call, std::chrono::duration<double>(patience_).count()));
    }
    // Most calls end at once; connecting takes seconds.
    std::this_thread::sleep_for(waited < std::chrono::milliseconds(5) ? std::chrono::microseconds(20)
                                                                      : std::chrono::microseconds(2000));
  }
}

void NcclShared::watch() {
  constexpr std::chrono::milliseconds interval(100);
  for (;;) {
    std::string error;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, interval, [&] { return ends_ || wakes_; });
      if (ends_) return;
      if (!interruption_->stopped()) error = find_error();
    }
    if (!error.empty()) interruption_->stop(error);
    if (interruption_->stopped()) return abort_all();
  }
}

std::string NcclShared::find_error() {
  for (const Watched& one : watched_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(one.comm, &state);
    const ncclResult_t result = asked == ncclSuccess ? state : asked;
    if (result != ncclSuccess && result != ncclInProgress)
      return fmt::format("{}: NCCL lost it: {}", one.who->label(), ncclGetErrorString(result));
  }
  return {};
}

void NcclShared::abort_all() {
  const std::lock_guard lock(mutex_);
  // First the streams: once their kernels give up, nobody may take what they left for a result.
  for (const auto& stream : streams_) stream->fail("a message between GPUs", interruption_->reason());
  try {
    cuda::use_gpu(gpu_);
  } catch (const DeviceError&) {
    return;  // the GPU is lost, and its kernels with it
  }
  for (Watched& one : watched_) {
    one.aborted = true;
    ncclCommAbort(one.comm);
  }
}

}  // namespace penstock::transport
