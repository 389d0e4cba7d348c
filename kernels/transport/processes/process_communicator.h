#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "kernels/cpu/stream.h"
#include "kernels/cpu/wait_point.h"
#include "kernels/transport/communicator.h"

namespace penstock::transport {

/// What communicators between processes share: their operations run on the streams' workers, on real clocks,
/// and collectives in the order in which they were enqueued, whatever the streams.
class ProcessCommunicator : public Communicator {
 protected:
  /// `turns`: where collectives wait for theirs; notified when `interruption` stops. It outlives this.
  ProcessCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<Interruption> interruption,
                      cpu::WaitPoint& turns);

 private:
  void queue_exchange(Stream& stream, TransferGroup group) final;
  void queue_collective(Stream& stream, const Collective& collective) final;
  void run_in_turn(const Collective& collective);
  static cpu::CpuStream& real_time(Stream& stream);

  /// Return once it is done. DeviceError if it fails or the world stops.
  virtual void run_exchange(const TransferGroup& group) = 0;
  virtual void run_collective(const Collective& collective) = 0;

  std::shared_ptr<Interruption> interruption_;
  cpu::WaitPoint& turns_;
  std::atomic<uint64_t> next_collective_{0};
};

}  // namespace penstock::transport
