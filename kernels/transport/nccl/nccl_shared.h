#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device/stream_failure.h"
#include "kernels/transport/interruption.h"
#include "kernels/transport/nccl/nccl_handle.h"
#include "kernels/transport/world.h"

namespace penstock::transport {

/// What a rank's NCCL communicators share: the stop, and the thread that looks for errors which NCCL, or the
/// hosts' world, finds while nobody calls them.
class NcclShared {
 public:
  /// `hosts` outlives it.
  explicit NcclShared(World& hosts);
  ~NcclShared();
  NcclShared(const NcclShared&) = delete;
  NcclShared& operator=(const NcclShared&) = delete;

  const std::shared_ptr<Interruption>& interruption() const { return interruption_; }

  /// From now on watched, and given up at a stop; at once, if there was one.
  void add(std::shared_ptr<NcclHandle> handle);
  /// No longer watched. False after a stop: then nothing is left to be done with it.
  bool remove(const std::shared_ptr<NcclHandle>& handle);
  /// A stream that uses a communicator: it fails at a stop.
  void used_by(const std::shared_ptr<StreamFailure>& stream);

  /// Waits until NCCL has finished what it started in `call`. DeviceError that begins with `describe()`, at
  /// an error, a stop, or when patience is over.
  template <class Describe>
  void finish(NcclHandle& handle, const char* call, const Describe& describe,
              std::chrono::milliseconds patience) const {
    const Ending ending = wait(handle, patience);
    if (ending.how != Ending::How::finished) [[unlikely]]
      throw_unfinished(ending, call, describe(), patience);
  }
  /// Whether the world, or that of the hosts, was stopped.
  bool stopped() const;
  /// DeviceError: "<doing> will not come to pass: <why the world was stopped>".
  [[noreturn]] void throw_stopped(const std::string& doing) const;

 private:
  struct Ending {
    enum class How { finished, failed, stopped, late } how = How::finished;
    ncclResult_t result = ncclSuccess;
  };
  Ending wait(NcclHandle& handle, std::chrono::milliseconds patience) const;
  [[noreturn]] void throw_unfinished(const Ending& ending, const char* call, const std::string& doing,
                                     std::chrono::milliseconds patience) const;
  void watch();
  std::string find_error();
  void give_up();

  World& hosts_;
  std::shared_ptr<Interruption> interruption_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<NcclHandle>> watched_;
  std::vector<std::shared_ptr<StreamFailure>> streams_;
  bool ends_ = false;
  bool wakes_ = false;
  bool over_ = false;  ///< everything was given up
  std::thread thread_;
};

}  // namespace penstock::transport
