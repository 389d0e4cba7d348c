#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/transport/communicator.h"
#include "kernels/transport/device_access.h"

/// How ranks of one process whose streams are a device's exchange data: hosts meet when they enqueue, streams
/// when they run. The host that comes second knows both addresses, and enqueues the copy on a stream of its
/// own, which waits for the signals of both sides; both sides wait for the signal of the copy. Signals may be
/// waited for before they are written, so no host waits for another. Copies are the device's own (copy
/// engines), also between two.
namespace penstock::transport {

/// A signal that one rank writes from whatever streams it enqueues on, counting up. Each write is ordered
/// after the one before, so that none is taken back.
struct RisingSignal {
  std::unique_ptr<Signal> signal;
  const Stream* last = nullptr;  ///< that wrote it

  void write(Stream& stream, uint64_t value) {
    if (last != &stream && value > 1) stream.wait(*signal, value - 1);
    stream.signal(*signal, value);
    last = &stream;
  }
};

/// One end of a message.
struct MessageEnd {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

/// The messages from one rank to another; the receiver's.
class Channel {
 public:
  Channel(Device& receiver, const std::string& name);

  /// Enqueues on `stream` that our end of the next message is ready, and, if the other end is known, the
  /// copy. Returns the message's number. Empty text, or what is wrong with the two sizes ("12 bytes came
  /// where …").
  uint64_t post(Stream& stream, bool sends, const MessageEnd& end, std::string* wrong);
  /// What is enqueued behind this starts when the message has passed.
  void wait(Stream& stream, uint64_t message);
  /// The receiver leaves: runs what is enqueued; DeviceError for whoever still comes.
  void close();
  /// From any thread, until forget().
  void release();
  /// After close(): the signals go.
  void forget();

 private:
  void check_open() const;
  void copy(const MessageEnd& from, const MessageEnd& to, std::string* wrong);

  std::string name_;
  Device& device_;
  std::mutex mutex_;
  bool open_ = true;
  RisingSignal sent_;
  RisingSignal room_;
  std::unique_ptr<Signal> passed_;
  std::unique_ptr<Stream> link_;  ///< from the first message on
  uint64_t posted_[2] = {0, 0};   ///< by whether it sends
  uint64_t matched_ = 0;
  // Ends that wait for the other one: all of one side, oldest first.
  std::vector<MessageEnd> waiting_;
  size_t first_waiting_ = 0;
  bool waiting_send_ = false;
};

/// One rank's part in collectives.
struct CollectiveLane {
  RisingSignal arrived;
  std::unique_ptr<Signal> worked;
  std::unique_ptr<Stream> stream;
  DeviceAccess access;
};

/// What the ranks of one communicator share.
class SignalledHub {
 public:
  explicit SignalledHub(size_t ranks);

  /// Of each rank, before anything is exchanged.
  void enter(int rank, const std::string& name, const DeviceAccess& access);
  /// Runs what is enqueued on the rank's device; may need release() to come to an end.
  void leave(int rank);
  /// Until forget().
  void release(int rank);
  /// After leave(): nothing of the rank's device is touched any more.
  void forget(int rank);
  /// Each rank lets its device read its peers'. All have entered.
  void reach_peers(int rank);

  Channel& channel(int source, int destination) {
    return *channels_[static_cast<size_t>(source) * ranks_ + static_cast<size_t>(destination)];
  }
  /// Enqueues our part on `stream`; the host that comes last enqueues everybody's work. Returns what is wrong
  /// if the ranks do not agree, else nothing.
  std::string collective(Stream& stream, const Identity& who, const Collective& collective);

 private:
  struct Meeting {
    uint64_t sequence = 0;
    size_t arrived = 0;
    std::vector<Collective> calls;
  };
  Meeting& meeting(uint64_t sequence);
  void enqueue_work(const Meeting& meeting);
  void work(const Meeting& meeting, size_t rank);

  const size_t ranks_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::mutex mutex_;
  std::vector<CollectiveLane> lanes_;
  std::vector<Meeting> meetings_;  ///< open ones, and free ones (nobody arrived) to use again
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace penstock::transport
