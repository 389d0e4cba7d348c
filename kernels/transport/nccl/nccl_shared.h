#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nccl.h>

#include "kernels/device/stream_failure.h"
#include "kernels/transport/interruption.h"

namespace penstock::transport {

/// What a rank's NCCL communicators share: the stop, and the thread that looks for errors which NCCL finds while
/// nobody calls it.
class NcclShared {
 public:
  NcclShared(int gpu, std::chrono::milliseconds patience);
  ~NcclShared();
  NcclShared(const NcclShared&) = delete;
  NcclShared& operator=(const NcclShared&) = delete;

  const std::shared_ptr<Interruption>& interruption() const { return interruption_; }
  int gpu() const { return gpu_; }

  /// From now on watched; aborted at a stop. `who` outlives remove().
  void add(ncclComm_t comm, const Identity& who);
  /// No longer. False if it was aborted: then it must not be used any more.
  bool remove(ncclComm_t comm);
  /// A stream that used a communicator: it fails at a stop.
  void used_by(const std::shared_ptr<StreamFailure>& stream);

  /// Waits until NCCL has finished what it started with this communicator. DeviceError with `call` and `doing` at an
  /// error, a stop, or when patience is over.
  void finish(ncclComm_t comm, const char* call, const std::string& doing) const;

 private:
  struct Watched {
    ncclComm_t comm = nullptr;
    const Identity* who = nullptr;
    bool aborted = false;
  };

  void watch();
  std::string find_error();
  void abort_all();

  const int gpu_;
  const std::chrono::milliseconds patience_;
  std::shared_ptr<Interruption> interruption_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  std::vector<std::shared_ptr<StreamFailure>> streams_;
  bool ends_ = false;
  bool wakes_ = false;
  std::thread thread_;
};

}  // namespace penstock::transport
