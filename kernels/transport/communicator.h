#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/transport/interruption.h"
#include "kernels/transport/transfer_group.h"

namespace penstock::transport {

enum class Direction : uint8_t { send, receive };

/// One message of a group. `peer` is a rank of the communicator, possibly one's own.
struct Message {
  Direction direction = Direction::send;
  int peer = 0;
  Tensor tensor;
};

inline Message send_to(int peer, const Tensor& tensor) {
  return {Direction::send, peer, tensor};
}
inline Message receive_from(int peer, const Tensor& tensor) {
  return {Direction::receive, peer, tensor};
}

/// sum: fp32, fp64, i32, i64 in their own type (integers wrap); bf16 and fp16 see Communicator::all_reduce.
/// maximum and minimum: which NaN survives is not defined, so vote with numbers.
enum class Reduction : uint8_t { sum, maximum, minimum };
std::string_view name_of(Reduction reduction);

enum class CollectiveKind : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, barrier };
/// "all_reduce", …; a literal.
const char* name_of(CollectiveKind kind);

/// A collective operation, checked, as implementations see it.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  Reduction reduction = Reduction::sum;
  int root = 0;           ///< broadcast
  uint64_t sequence = 0;  ///< counts the collectives of this communicator
  Tensor input;           ///< absent: barrier
  Tensor output;          ///< broadcast: the same tensor
};

/// A named, ordered set of ranks that exchange data on streams.
///
/// Every operation returns once it is queued, and is *rendezvous*: nothing may rely on buffering (a send may
/// complete only when its receive runs), and nothing breaks if there is some. A tensor belongs to the
/// operation until the stream has passed it. Messages from one rank to another match in the order in which
/// they were enqueued on each side, whatever the streams; collectives likewise, and they run one at a time
/// per communicator. One host thread at a time. The communicator must outlive the work queued on it.
///
/// UsageError at once for tensors, peers or roots that break the rules below. A peer that fails, an operation
/// that is dropped behind an error, and sizes that do not match are a DeviceError on the stream, naming
/// operation, communicator, peer and bytes; the world is then stopped (World::abort).
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return who_->name; }
  /// Ours, in 0…size−1.
  int rank() const { return who_->rank; }
  int size() const { return who_->size(); }
  /// World ranks in the communicator's order.
  const std::vector<int>& members() const { return who_->members; }

  /// All messages at once: the order in the span only decides which of several messages between the same two
  /// ranks is which, so no order within a group can deadlock. Sender and receiver name equally many bytes.
  /// Zero bytes are a message too. Groups of up to TransferGroup::in_place messages do not allocate.
  void exchange(Stream& stream, std::span<const Message> messages);
  void exchange(Stream& stream, std::initializer_list<Message> messages) {
    exchange(stream, std::span<const Message>(messages.begin(), messages.size()));
  }

  /// output = reduction of every rank's input; as many elements everywhere, of one of fp32, fp64, bf16,
  /// fp16, i32, i64. Output may be input. inproc combines in rank order, bf16 and fp16 in fp32 and rounded
  /// once. mpi combines in the library's order, those two in fp32 and rounded after every addition.
  void all_reduce(Stream& stream, const Tensor& input, const Tensor& output, Reduction reduction);
  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) {
    all_reduce(stream, tensor, tensor, reduction);
  }
  /// output (n) = block `rank` of the reduction of every rank's input (size · n); orders as for all_reduce.
  /// Output and input do not overlap.
  void reduce_scatter(Stream& stream, const Tensor& input, const Tensor& output, Reduction reduction);
  /// output (size · n) = the inputs (n) of all ranks in rank order; any dtype. Input may be block `rank` of
  /// output; other overlaps are not allowed.
  void all_gather(Stream& stream, const Tensor& input, const Tensor& output);
  /// tensor = rank `root`'s tensor; any dtype.
  void broadcast(Stream& stream, const Tensor& tensor, int root);
  /// Work queued after this starts once every rank's work queued before it is done.
  void barrier(Stream& stream);

 protected:
  explicit Communicator(std::shared_ptr<const Identity> who);
  const std::shared_ptr<const Identity>& who() const { return who_; }

 private:
  virtual void queue_exchange(Stream& stream, TransferGroup group) = 0;
  virtual void queue_collective(Stream& stream, const Collective& collective) = 0;

  void check_memory(const char* operation, const Tensor& tensor) const;
  void check_rank(const char* operation, int peer) const;
  void check_reduction(CollectiveKind kind, const Tensor& input, const Tensor& output) const;
  void queue(Stream& stream, Collective collective);

  std::shared_ptr<const Identity> who_;
  std::vector<uint32_t> sent_;      ///< messages enqueued to each peer
  std::vector<uint32_t> received_;  ///< and from each
  uint64_t collectives_ = 0;
};

}  // namespace penstock::transport
