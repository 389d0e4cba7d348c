#pragma once

#include <memory>

#include "kernels/transport/communicator.h"
#include "kernels/transport/inproc/fabric.h"

namespace penstock::transport {

class InprocCommunicator final : public Communicator {
 public:
  InprocCommunicator(std::shared_ptr<Fabric> fabric, Hub& hub, int rank);

 private:
  void queue_exchange(Stream& stream, TransferGroup group) override;
  void queue_collective(Stream& stream, const Collective& collective) override;

  std::shared_ptr<Fabric> fabric_;
  Hub& hub_;
};

}  // namespace penstock::transport
