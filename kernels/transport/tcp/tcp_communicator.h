#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/transport/processes/process_communicator.h"
#include "kernels/transport/tcp/tcp_hub.h"

namespace penstock::transport {

class TcpCommunicator final : public ProcessCommunicator {
 public:
  /// Uses the channels `channel` (messages) and `channel` + 1 (what collectives are made of).
  TcpCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<TcpHub> hub, uint32_t channel);

 private:
  void run_exchange(const TransferGroup& group) override;
  void run_collective(const Collective& collective) override;

  /// A round of a collective: whatever `transfers_` holds, with every peer at most one message each way.
  void round(const Collective& collective);
  void send(int peer, const void* data, size_t bytes);
  void receive(int peer, void* data, size_t bytes);
  void reduce(const Collective& collective, int64_t begin, int64_t end, void* output);
  void all_reduce(const Collective& collective);
  void all_gather(const Collective& collective);
  void broadcast(const Collective& collective);

  std::shared_ptr<TcpHub> hub_;
  const uint32_t channel_;
  uint32_t rounds_ = 0;
  // Of the collective whose turn it is.
  std::vector<TcpTransfer> transfers_;
  std::vector<std::byte> others_;
};

}  // namespace penstock::transport
