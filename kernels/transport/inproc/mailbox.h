#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/cpu/wait_point.h"

namespace penstock::transport {

/// A message offered to a rank. It belongs to the sending operation, which waits until it is done; a buffered
/// one owns its data and belongs to the receiver.
struct Post {
  int source = 0;
  uint32_t sequence = 0;
  const std::byte* data = nullptr;
  size_t bytes = 0;
  double ready = 0;  ///< the sender's time
  bool buffered = false;
  std::vector<std::byte> buffer;

  // Written by the receiver; `done` last, after which the sender may destroy the post.
  double off = 0;        ///< the receiver's time when the link was free again
  bool refused = false;  ///< its size was wrong; the world has been stopped with the reason
  std::atomic<bool> done{false};

  // Guarded by the mailbox's mutex.
  bool taken = false;
  Post* next = nullptr;
};

/// Where one rank of a communicator finds what others send to it, and where its operations sleep.
class Mailbox {
 public:
  Mailbox() = default;
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void deliver(Post& post);
  /// The post of this source and number, now the caller's to copy from; nullptr if it is not here yet.
  Post* take(int source, uint32_t sequence);
  /// Takes a post back; false if its receiver has it already.
  bool withdraw(Post& post);

  /// Changes whenever something happened that an operation of this rank may be waiting for.
  uint64_t changes() const { return changes_.load(); }
  void change();
  void wait_for_change(uint64_t seen);

 private:
  std::mutex mutex_;
  Post* posts_ = nullptr;
  std::atomic<uint64_t> changes_{0};
  cpu::WaitPoint changed_;
};

}  // namespace penstock::transport
