#include "kernels/transport/nccl/nccl_shared.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/nccl/nccl_call.h"
#include "kernels/transport/nccl_world.h"

namespace penstock::transport {
namespace {

std::atomic<bool> given_up{false};

/// Ends its kernels. NCCL may wait there, for other communicators' kernels too: each has a thread, and none
/// is waited for.
void abandon(NcclHandle& handle) {
  ncclComm_t comm = handle.take();
  if (comm == nullptr) return;
  given_up = true;
  std::thread([comm] { ncclCommAbort(comm); }).detach();
}

constexpr const char* message_name = "a message between GPUs";

}  // namespace

bool nccl_given_up() {
  return given_up;
}

NcclShared::NcclShared(World& hosts)
    : hosts_(hosts),
      interruption_(std::make_shared<Interruption>([this] {
        {
          const std::lock_guard lock(mutex_);
          wakes_ = true;
        }
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

void NcclShared::add(std::shared_ptr<NcclHandle> handle) {
  const std::lock_guard lock(mutex_);
  if (over_) return abandon(*handle);
  watched_.push_back(std::move(handle));
}

bool NcclShared::remove(const std::shared_ptr<NcclHandle>& handle) {
  const std::lock_guard lock(mutex_);
  // Between a stop and its thread it stays: its kernels have to be ended.
  if (over_ || interruption_->stopped()) return false;
  watched_.erase(std::remove(watched_.begin(), watched_.end(), handle), watched_.end());
  return true;
}

void NcclShared::used_by(const std::shared_ptr<StreamFailure>& stream) {
  const std::lock_guard lock(mutex_);
  if (over_) stream->fail(message_name, interruption_->reason());
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
}

bool NcclShared::stopped() const {
  if (!interruption_->stopped() && hosts_.stopped()) interruption_->stop(hosts_.stop_reason());
  return interruption_->stopped();
}

void NcclShared::throw_stopped(const std::string& doing) const {
  throw DeviceError(fmt::format("{} will not come to pass: {}", doing, interruption_->reason()));
}

NcclShared::Ending NcclShared::wait(NcclHandle& handle, std::chrono::milliseconds patience) const {
  // Most calls end in some ten microseconds, sooner than a sleep would; connecting takes seconds.
  constexpr std::chrono::microseconds awake(200);
  constexpr std::chrono::microseconds asleep(500);
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    ncclResult_t state = ncclSuccess;
    const auto asked = handle.with([&](ncclComm_t comm) { return ncclCommGetAsyncError(comm, &state); });
    if (!asked || stopped()) return {Ending::How::stopped};
    if (*asked != ncclSuccess) state = *asked;
    if (state == ncclSuccess) return {};
    if (state != ncclInProgress) return {Ending::How::failed, state};
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > patience) return {Ending::How::late};
    if (waited < awake) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(asleep);
    }
  }
}

void NcclShared::throw_unfinished(const Ending& ending, const char* call, const std::string& doing,
                                  std::chrono::milliseconds patience) const {
  if (ending.how == Ending::How::stopped) throw_stopped(fmt::format("{}: {}", doing, call));
  if (ending.how == Ending::How::failed) throw_nccl_error(call, ending.result, doing);
  throw DeviceError(
      fmt::format("{}: {} did not end within {} s: a rank is missing, or cannot be reached "
                  "(comm.nccl = {{NCCL_DEBUG = \"INFO\"}} shows what NCCL tries)",
                  doing, call, std::chrono::duration<double>(patience).count()));
}

void NcclShared::watch() {
  constexpr std::chrono::milliseconds interval(100);
  for (;;) {
    std::string error;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, interval, [&] { return ends_ || wakes_; });
      if (ends_ && !wakes_) return;
      if (!wakes_) error = find_error();
    }
    if (!error.empty()) interruption_->stop(error);
    if (!stopped()) continue;
    give_up();
    hosts_.abort(interruption_->reason());
    return;
  }
}

std::string NcclShared::find_error() {
  for (const auto& handle : watched_) {
    ncclResult_t state = ncclSuccess;
    const auto asked = handle->if_free([&](ncclComm_t comm) { return ncclCommGetAsyncError(comm, &state); });
    if (!asked) continue;
    const ncclResult_t result = *asked == ncclSuccess ? state : *asked;
    if (result != ncclSuccess && result != ncclInProgress)
      return fmt::format("{}: NCCL lost it: {}", handle->who().label(), nccl_error_text(result));
  }
  return {};
}

void NcclShared::give_up() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  // First the streams: once their kernels give up, nobody may take what they left for a result.
  for (const auto& stream : streams_) stream->fail(message_name, interruption_->reason());
  for (const auto& handle : watched_) abandon(*handle);
  watched_.clear();
}

}  // namespace penstock::transport
