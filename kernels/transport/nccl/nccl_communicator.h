#pragma once

#include <memory>

#include <nccl.h>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/transport/communicator.h"
#include "kernels/transport/nccl/nccl_shared.h"

namespace penstock::transport {

class NcclCommunicator final : public Communicator {
 public:
  /// Connects the members, who all call this with the same `id`. Collective over them.
  NcclCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<NcclShared> shared, ncclUniqueId id);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

 private:
  void queue_exchange(Stream& stream, TransferGroup group) override;
  void queue_collective(Stream& stream, const Collective& collective) override;
  cuda::CudaStream& used(Stream& stream, const char* operation);
  ncclResult_t start(const Collective& collective, cudaStream_t stream);
  std::string doing(const char* operation) const;

  std::shared_ptr<NcclShared> shared_;
  ncclComm_t comm_ = nullptr;
  int* flag_ = nullptr;  ///< GPU memory, for barriers
};

}  // namespace penstock::transport
