#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/transport/communicator.h"
#include "kernels/transport/inproc/fabric.h"
#include "kernels/transport/inproc/signalled_hub.h"

namespace penstock::transport {

/// Ranks that are threads, with streams of devices.
class SignalledCommunicator final : public Communicator, private Releasable {
 public:
  SignalledCommunicator(std::shared_ptr<Fabric> fabric, Hub& hub, int rank, const DeviceAccess& access);
  ~SignalledCommunicator() override;
  SignalledCommunicator(const SignalledCommunicator&) = delete;
  SignalledCommunicator& operator=(const SignalledCommunicator&) = delete;

 private:
  void queue_exchange(Stream& stream, TransferGroup group) override;
  void queue_collective(Stream& stream, const Collective& collective) override;
  void release() override;

  Channel& channel_of(const Transfer& transfer);
  /// Before an operation is queued: DeviceError if the world is stopped.
  void check_running(Stream& stream, const char* operation);
  [[noreturn]] void stop(const std::string& reason);

  std::shared_ptr<Fabric> fabric_;
  SignalledHub& hub_;
  DeviceAccess access_;
  std::vector<uint64_t> numbers_;  ///< of the messages of one exchange

  std::mutex mutex_;
  std::vector<std::shared_ptr<StreamFailure>> streams_;  ///< that have been used
  bool told_ = false;
};

}  // namespace penstock::transport
