#include "kernels/transport/inproc/exchange.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// A message of the group on its way.
struct Pending {
  /// held: on its link, on a real clock. off: the link is free, and the message not yet there.
  enum class State { waiting, held, off, done };

  const Transfer* transfer = nullptr;
  State state = State::waiting;
  Post post;              ///< sends
  Post* sent = nullptr;   ///< sends: the post offered; empty where the receiver owns it
  Post* taken = nullptr;  ///< receives: what is being received
  double off = 0;         ///< its link is free; the sender goes on
  double arrived = 0;
  double latency = 0;               ///< receives on a real clock
  SteadyClock::time_point release;  ///< receives on a real clock: when the state may change
};

class Exchange {
 public:
  Exchange(Fabric& fabric, Hub& hub, const Identity& who, const TransferGroup& group, cpu::CpuStream& stream)
      : fabric_(fabric), hub_(hub), who_(who), stream_(stream), begun_(stream.message_seconds()) {
    const size_t size = group.all().size();
    if (size > few_.size()) many_ = std::make_unique<Pending[]>(size);
    messages_ = {size > few_.size() ? many_.get() : few_.data(), size};
    for (size_t i = 0; i < size; ++i) messages_[i].transfer = &group.all()[i];
  }

  ~Exchange() {
    for (Pending& message : messages_) {
      if (message.taken != nullptr) hand_back(*std::exchange(message.taken, nullptr));
      if (message.sent != nullptr && !mailbox(message.transfer->peer).withdraw(message.post)) {
        // The receiver is copying. It never waits for anyone meanwhile.
        for (;;) {
          const uint64_t changes = own().changes();
          if (message.post.done.load()) break;
          own().wait_for_change(changes);
        }
      }
    }
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void run() {
    for (Pending& message : messages_) {
      if (message.transfer->sends) offer(message);
    }
    for (;;) {
      const uint64_t changes = own().changes();
      bool moved = false;
      bool all_done = true;
      bool held = false;
      for (Pending& message : messages_) {
        if (message.state == Pending::State::done) continue;
        moved = (message.transfer->sends ? advance_send(message) : advance_receive(message)) || moved;
        all_done = all_done && message.state == Pending::State::done;
        held = held || message.state == Pending::State::held || message.state == Pending::State::off;
      }
      if (all_done) break;
      if (moved) continue;
      if (fabric_.interruption()->stopped()) give_up();
      if (held) {
        constexpr std::chrono::microseconds poll(50);
        std::this_thread::sleep_for(poll);
      } else {
        own().wait_for_change(changes);
      }
    }
    for (const Pending& message : messages_) stream_.advance_messages(message.off, message.arrived);
  }

 private:
  Mailbox& mailbox(int rank) { return hub_.mailboxes[static_cast<size_t>(rank)]; }
  Mailbox& own() { return mailbox(who_.rank); }

  void offer(Pending& message) {
    const Transfer& transfer = *message.transfer;
    Post* post = &message.post;
    if (fabric_.buffered()) {
      post = new Post;  // the receiver's from here on; Mailbox::~Mailbox if it never comes
      post->buffered = true;
      post->buffer.assign(transfer.data, transfer.data + transfer.bytes);
    } else {
      message.sent = post;
    }
    post->source = who_.rank;
    post->sequence = transfer.sequence;
    post->data = fabric_.buffered() ? post->buffer.data() : transfer.data;
    post->bytes = transfer.bytes;
    post->ready = begun_;
    mailbox(transfer.peer).deliver(*post);
    if (fabric_.buffered()) message.state = Pending::State::done;
  }

  bool advance_send(Pending& message) {
    if (!message.post.done.load()) return false;
    message.sent = nullptr;
    if (message.post.refused) give_up();
    message.off = message.arrived = message.post.off;
    message.state = Pending::State::done;
    return true;
  }

  bool advance_receive(Pending& message) {
    if (message.state == Pending::State::waiting) return take(message);
    if (SteadyClock::now() < message.release) return false;
    if (message.state == Pending::State::off) {
      message.state = Pending::State::done;
      return true;
    }
    free_link(message);
    message.release += duration(message.latency);
    message.state = Pending::State::off;
    return true;
  }

  bool take(Pending& message) {
    const Transfer& transfer = *message.transfer;
    double start = begun_;
    for (const Pending& earlier : messages_.first(static_cast<size_t>(&message - messages_.data()))) {
      if (earlier.transfer->sends || earlier.transfer->peer != transfer.peer) continue;
      // The link is still busy with it.
      if (earlier.state == Pending::State::waiting || earlier.state == Pending::State::held) return false;
      start = std::max(start, earlier.off);
    }
    Post* const post = own().take(transfer.peer, transfer.sequence);
    if (post == nullptr) return false;
    message.taken = post;
    if (post->bytes != transfer.bytes) refuse(*post, transfer);
    if (transfer.bytes > 0) std::memcpy(transfer.data, post->data, transfer.bytes);
    const int source = who_.world_rank(transfer.peer);
    const Link link = fabric_.link(source, who_.world_rank(who_.rank), transfer.sequence);
    const double occupied = static_cast<double>(transfer.bytes) / link.bytes_per_second;
    if (stream_.on_virtual_clock()) {
      message.off = std::max(start, post->ready) + occupied;
      message.arrived = message.off + link.latency_seconds;
    } else if (occupied + link.latency_seconds > 0) {
      message.release = SteadyClock::now() + duration(occupied);
      message.latency = link.latency_seconds;
      message.state = Pending::State::held;
      return true;
    }
    free_link(message);
    message.state = Pending::State::done;
    return true;
  }

  static SteadyClock::duration duration(double seconds) {
    return std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
  }

  [[noreturn]] void refuse(Post& post, const Transfer& transfer) {
    const std::string text = fmt::format(
        "{}: exchange: {} sent {} bytes where {} bytes are to be received (message {} of this pair); both "
        "sides must name the same tensor",
        who_.label(), who_.peer_label(transfer.peer), post.bytes, transfer.bytes, transfer.sequence);
    fabric_.interruption()->stop(text);  // before the sender learns that it was refused
    post.refused = true;
    throw DeviceError(text);
  }

  void free_link(Pending& message) {
    message.taken->off = message.off;
    hand_back(*std::exchange(message.taken, nullptr));
  }

  void hand_back(Post& post) {
    if (post.buffered) {
      const std::unique_ptr<Post> owned(&post);
      return;
    }
    Mailbox& sender = mailbox(post.source);
    post.done.store(true);  // the sender may be gone with it now
    sender.change();
  }

  [[noreturn]] void give_up() const {
    const auto open = std::find_if(messages_.begin(), messages_.end(), [](const Pending& message) {
      return message.state != Pending::State::done;
    });
    const Transfer& transfer = *open->transfer;
    throw DeviceError(fmt::format("{}: exchange: {} of {} bytes {} {} will not come to pass: {}",
                                  who_.label(), transfer.sends ? "send" : "receive", transfer.bytes,
                                  transfer.sends ? "to" : "from", who_.peer_label(transfer.peer),
                                  fabric_.interruption()->reason()));
  }

  Fabric& fabric_;
  Hub& hub_;
  const Identity& who_;
  cpu::CpuStream& stream_;
  const double begun_;
  std::array<Pending, TransferGroup::in_place> few_;
  std::unique_ptr<Pending[]> many_;
  std::span<Pending> messages_;
};

}  // namespace

void run_exchange(Fabric& fabric, Hub& hub, const Identity& who, const TransferGroup& group,
                  cpu::CpuStream& stream) {
  Exchange(fabric, hub, who, group, stream).run();
}

}  // namespace penstock::transport
