#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <nccl.h>

#include "tests/fake_cuda/stream.h"

namespace penstock::fake_nccl {

enum class Kind { send, receive, all_reduce, reduce_scatter, all_gather, broadcast };

/// One call, as it will be done.
struct Operation {
  Kind kind = Kind::send;
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;  ///< bytes of messages; elements
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;  ///< or root
};

/// What a sender has for a receiver.
struct Offer {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  bool taken = false;
  bool withdrawn = false;
  std::vector<std::byte> copy;  ///< buffered
};

struct Channel {
  std::deque<std::shared_ptr<Offer>> offers;
  bool sender_asked = false;
  bool receiver_asked = false;
};

/// One collective, until all have left.
struct Round {
  int arrived = 0;
  int left = 0;
  std::vector<Operation> calls;
};

/// All ranks of a communicator; guarded by its mutex.
struct Clique {
  explicit Clique(int size)
      : ranks(size),
        channels(static_cast<size_t>(size) * static_cast<size_t>(size)),
        collective_asked(static_cast<size_t>(size), false) {}

  Channel& channel(int from, int to) {
    return channels[static_cast<size_t>(from) * static_cast<size_t>(ranks) + static_cast<size_t>(to)];
  }

  std::mutex mutex;
  std::condition_variable changed;
  const int ranks;
  int finalized = 0;
  std::map<int, int> gpus;  ///< by rank, of those that joined
  std::vector<Channel> channels;
  std::vector<bool> collective_asked;
  std::map<uint64_t, Round> rounds;
};

}  // namespace penstock::fake_nccl

struct ncclComm {
  std::shared_ptr<penstock::fake_nccl::Clique> clique;
  int rank = 0;
  int gpu = 0;
  bool in_order = false;  ///< NCCL_LAUNCH_ORDER_IMPLICIT
  std::atomic<bool> aborted{false};
  std::atomic<int> under_way{0};  ///< kernels
  std::atomic<ncclResult_t> broken{ncclSuccess};
  // Guarded by the library's mutex.
  std::vector<penstock::fake_nccl::Operation> waiting;  ///< a group that is not connected yet
  cudaStream_t waiting_stream = nullptr;
  uint64_t collectives = 0;
  bool finalizing = false;
  std::shared_ptr<penstock::fake_cuda::Record> last;  ///< end of its latest kernel
};

namespace penstock::fake_nccl {

/// The kernel of a group: all its messages at once, or one collective, the `number`-th of its communicator.
/// Returns early where the communicator is aborted or the context lost.
void run(ncclComm& comm, cudaStream_t stream, const std::vector<Operation>& group, uint64_t number);

/// Bytes of an element.
size_t size_of(ncclDataType_t type);

}  // namespace penstock::fake_nccl
