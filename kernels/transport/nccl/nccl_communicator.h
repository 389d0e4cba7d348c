#pragma once

#include <exception>
#include <memory>
#include <string>

#include <nccl.h>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/transport/communicator.h"
#include "kernels/transport/nccl/nccl_handle.h"
#include "kernels/transport/nccl/nccl_shared.h"
#include "kernels/transport/nccl_world.h"

namespace penstock::transport {

class NcclCommunicator final : public Communicator {
 public:
  /// Connects the members, who all call this with the same `id`. Collective over them. `gpu`: CUDA's index of
  /// this rank's.
  NcclCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<NcclShared> shared,
                   const NcclOptions& options, int gpu, ncclUniqueId id);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

 private:
  void queue_exchange(Stream& stream, TransferGroup group) override;
  void queue_collective(Stream& stream, const Collective& collective) override;
  void connect(ncclUniqueId id);
  void leave();
  ncclResult_t start(const Collective& collective, ncclComm_t comm, cudaStream_t stream) const;
  /// Runs `work`; what it throws stops the world, as the peers would wait in vain.
  template <class Work>
  void bound(Work work) const;
  /// call(comm, stream), in the order of the stream.
  template <class Call, class Doing>
  void queue_on(Stream& stream, const char* name, Call call, const Doing& doing);
  std::string doing(const char* operation) const;

  std::shared_ptr<NcclShared> shared_;
  const NcclOptions options_;
  const int gpu_;
  std::shared_ptr<NcclHandle> handle_;
  int* flag_ = nullptr;  ///< GPU memory, for barriers
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace penstock::transport
