#include "kernels/transport/tcp/tcp_hub.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kernels/device/error.h"

namespace penstock::transport {
namespace {

constexpr uint64_t alarm_key = std::numeric_limits<uint64_t>::max();
constexpr size_t longest_reason = 4096;
/// What one link may move before the others have their turn.
constexpr size_t turn_bytes = size_t{4} << 20;

template <class List>
auto find(List& list, uint32_t channel, uint32_t sequence) {
  return std::find_if(list.begin(), list.end(), [&](const auto& one) {
    if constexpr (requires { one.transfer; }) {
      return one.transfer.channel == channel && one.transfer.sequence == sequence;
    } else {
      return one.channel == channel && one.sequence == sequence;
    }
  });
}

}  // namespace

TcpHub::TcpHub(int rank, std::vector<Socket> peers)
    : rank_(rank),
      links_(peers.size()),
      interruption_(std::make_shared<Interruption>([this] { wake(); })),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      alarm_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (epoll_ < 0 || alarm_ < 0) throw_socket_error("making the epoll of the TCP transport", errno);
  const auto watch = [this](int descriptor, uint64_t key) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0)
      throw_socket_error("watching a TCP peer", errno);
  };
  watch(alarm_, alarm_key);
  for (size_t peer = 0; peer < peers.size(); ++peer) {
    links_[peer].peer = static_cast<int>(peer);
    links_[peer].socket = std::move(peers[peer]);
    if (links_[peer].socket) watch(links_[peer].socket.descriptor(), peer);
  }
  thread_ = std::thread([this] { serve(); });
}

TcpHub::~TcpHub() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake();
  thread_.join();
  ::close(alarm_);
  ::close(epoll_);
}

std::optional<TcpHub::Failure> TcpHub::run(std::span<const TcpTransfer> transfers) {
  Operation operation;
  std::string lost;
  {
    std::unique_lock lock(mutex_);
    operation.open = transfers.size();
    operations_.push_back(&operation);
    // Receives first: the peers can answer while we go on.
    for (const bool sends : {false, true}) {
      for (size_t i = 0; i < transfers.size() && !interruption_->stopped(); ++i)
        if (transfers[i].sends == sends) post({transfers[i], &operation, i});
    }
    for (const TcpTransfer& transfer : transfers) flush(links_[static_cast<size_t>(transfer.peer)]);
    if (!lost_.empty()) {
      lost = lost_;
      lock.unlock();
      interruption_->stop(lost);
      lock.lock();
    }
    operation.changed.wait(lock, [&] {
      return operation.open == 0 || operation.failure.has_value() || interruption_->stopped();
    });
    operations_.erase(std::find(operations_.begin(), operations_.end(), &operation));
    if (operation.open == 0 && !operation.failure) return std::nullopt;
  }
  if (!operation.failure) operation.failure = Failure{0, interruption_->reason()};
  // What else was posted must not be touched any more.
  interruption_->stop(operation.failure->reason);
  const std::lock_guard lock(mutex_);
  return operation.failure;
}

void TcpHub::post(const Posted& posted) {
  Link& link = links_[static_cast<size_t>(posted.transfer.peer)];
  const TcpTransfer& transfer = posted.transfer;
  if (transfer.peer == rank_) {
    meet_ourselves(link, posted);
  } else if (!transfer.sends) {
    link.receives.push_back(posted);
    link.out.push_back({{Kind::ask, transfer.channel, transfer.sequence, 0, transfer.bytes}, {}});
  } else if (const auto asked = find(link.asked, transfer.channel, transfer.sequence);
             asked != link.asked.end()) {
    const uint64_t bytes = asked->bytes;
    link.asked.erase(asked);
    answer(link, posted, bytes);
  } else {
    link.sends.push_back(posted);
  }
}

void TcpHub::answer(Link& link, const Posted& posted, uint64_t asked_bytes) {
  const TcpTransfer& transfer = posted.transfer;
  const bool same = transfer.bytes == asked_bytes;
  link.out.push_back(
      {{same ? Kind::data : Kind::differs, transfer.channel, transfer.sequence, 0, transfer.bytes},
       same ? posted : Posted()});
  if (!same)
    fail(posted,
         fmt::format("{} bytes are expected there; both sides must name the same tensor", asked_bytes));
}

void TcpHub::meet_ourselves(Link& self, const Posted& posted) {
  std::vector<Posted>& others = posted.transfer.sends ? self.receives : self.sends;
  const auto found = find(others, posted.transfer.channel, posted.transfer.sequence);
  if (found == others.end()) {
    (posted.transfer.sends ? self.sends : self.receives).push_back(posted);
    return;
  }
  const Posted other = *found;
  others.erase(found);
  const TcpTransfer& from = posted.transfer.sends ? posted.transfer : other.transfer;
  const TcpTransfer& to = posted.transfer.sends ? other.transfer : posted.transfer;
  if (from.bytes != to.bytes) {
    for (const Posted& one : {posted, other})
      fail(one, fmt::format("{} bytes came where {} were expected; both sides must name the same tensor",
                            from.bytes, to.bytes));
    return;
  }
  if (from.bytes > 0) std::memcpy(to.data, from.data, from.bytes);
  complete(posted);
  complete(other);
}

void TcpHub::complete(const Posted& posted) {
  if (--posted.operation->open == 0) posted.operation->changed.notify_one();
}

void TcpHub::fail(const Posted& posted, std::string reason) {
  if (!posted.operation->failure) posted.operation->failure = Failure{posted.index, std::move(reason)};
  posted.operation->changed.notify_one();
}

void TcpHub::flush(Link& link) {
  if (!link.socket || link.gone) return;
  size_t budget = turn_bytes;
  while (link.first_out < link.out.size() && !interruption_->stopped()) {
    const size_t before = link.written;
    if (!send_some(link)) break;
    const size_t moved = link.written > before ? link.written - before : 0;
    if (moved >= budget) break;
    budget -= moved;
  }
  if (link.first_out == link.out.size()) {
    link.out.clear();
    link.first_out = 0;
  }
  const bool waits = !link.out.empty() && !link.gone;
  if (waits == link.waits_for_room) return;
  link.waits_for_room = waits;
  epoll_event event{};
  event.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = static_cast<uint64_t>(link.peer);
  if (!link.gone && epoll_ctl(epoll_, EPOLL_CTL_MOD, link.socket.descriptor(), &event) != 0)
    lose(link, fmt::format("epoll_ctl: {}", std::generic_category().message(errno)));
}

/// Whether the socket took something and may take more.
bool TcpHub::send_some(Link& link) {
  Outgoing& first = link.out[link.first_out];
  const size_t body = first.header.kind == Kind::data ? first.posted.transfer.bytes : 0;
  std::array<iovec, 2> parts{};
  size_t count = 0;
  if (link.written < sizeof(Header)) {
    parts[count++] = {reinterpret_cast<std::byte*>(&first.header) + link.written,
                      sizeof(Header) - link.written};
  }
  const size_t body_written = link.written < sizeof(Header) ? 0 : link.written - sizeof(Header);
  if (body > body_written) parts[count++] = {first.posted.transfer.data + body_written, body - body_written};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t sent = ::sendmsg(link.socket.descriptor(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) lose(link, std::generic_category().message(errno));
    return false;
  }
  link.written += static_cast<size_t>(sent);
  if (link.written < sizeof(Header) + body) return true;
  link.written = 0;
  if (first.header.kind == Kind::data) complete(first.posted);
  ++link.first_out;
  return true;
}

void TcpHub::receive(Link& link) {
  size_t budget = turn_bytes;
  while (!link.gone && !interruption_->stopped()) {
    const size_t before = link.body_bytes;
    if (!receive_some(link)) break;
    const size_t moved = link.body_bytes > before ? link.body_bytes - before : sizeof(Header);
    if (moved >= budget) break;
    budget -= moved;
  }
}

/// Whether something came and more may.
bool TcpHub::receive_some(Link& link) {
  const bool in_head = link.head_bytes < sizeof(Header);
  std::byte* target = reinterpret_cast<std::byte*>(&link.head) + link.head_bytes;
  size_t room = sizeof(Header) - link.head_bytes;
  if (!in_head) {
    room = link.head.bytes - link.body_bytes;
    target = link.head.kind == Kind::stop ? reinterpret_cast<std::byte*>(link.reason.data()) + link.body_bytes
                                          : link.reading.transfer.data + link.body_bytes;
  }
  const ssize_t got = ::recv(link.socket.descriptor(), target, room, MSG_DONTWAIT);
  if (got < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) lose(link, std::generic_category().message(errno));
    return false;
  }
  if (got == 0) {
    lose(link, "it closed the connection");
    return false;
  }
  (in_head ? link.head_bytes : link.body_bytes) += static_cast<size_t>(got);
  if (in_head && link.head_bytes == sizeof(Header)) handle_header(link);
  if (!in_head && link.body_bytes == link.head.bytes) handle_body(link);
  return true;
}

void TcpHub::handle_header(Link& link) {
  const Header& head = link.head;
  const auto take = [&](std::vector<Posted>& list) {
    const auto found = find(list, head.channel, head.sequence);
    if (found == list.end()) return Posted();
    Posted posted = *found;
    list.erase(found);
    return posted;
  };
  switch (head.kind) {
    case Kind::ask:
      if (const Posted posted = take(link.sends); posted.operation != nullptr) {
        answer(link, posted, head.bytes);
        flush(link);
      } else {
        link.asked.push_back(head);
      }
      break;
    case Kind::data:
      link.reading = take(link.receives);
      if (link.reading.operation == nullptr || link.reading.transfer.bytes != head.bytes) {
        lose(link, "it sent what nobody asked for: are both of one build?");
      } else if (head.bytes > 0) {
        return;  // the data follows
      } else {
        complete(link.reading);
      }
      break;
    case Kind::differs:
      if (const Posted posted = take(link.receives); posted.operation != nullptr) {
        fail(posted, fmt::format("{} bytes came where {} were expected; both sides must name the same tensor",
                                 head.bytes, posted.transfer.bytes));
      }
      break;
    case Kind::good_bye:
      link.heard_good_bye = true;
      left_.notify_all();
      break;
    case Kind::stop:
      link.reason.assign(std::min<size_t>(head.bytes, longest_reason), '\0');
      link.head.bytes = link.reason.size();
      if (!link.reason.empty()) return;
      lose(link, "it stopped");
      break;
    default:
      lose(link, "it sent what is no message: are both of one build?");
  }
  link.head_bytes = 0;
}

void TcpHub::handle_body(Link& link) {
  link.head_bytes = 0;
  link.body_bytes = 0;
  if (link.head.kind == Kind::stop) {
    lose(link, link.reason);
  } else {
    complete(link.reading);
  }
}

void TcpHub::lose(Link& link, const std::string& why) {
  if (link.gone) return;
  link.gone = true;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, link.socket.descriptor(), nullptr);
  left_.notify_all();
  if (!link.heard_good_bye && lost_.empty()) lost_ = fmt::format("lost {}: {}", name_of(link), why);
}

std::string TcpHub::name_of(const Link& link) const {
  return fmt::format("world rank {}", link.peer);
}

void TcpHub::serve() {
  std::array<epoll_event, 16> events{};
  for (;;) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) {
      interruption_->stop(fmt::format("epoll_wait: {}", std::generic_category().message(errno)));
    }
    std::string lost;
    {
      const std::lock_guard lock(mutex_);
      if (ends_ || interruption_->stopped()) break;
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        if (event.data.u64 == alarm_key) continue;
        Link& link = links_[event.data.u64];
        if ((event.events & EPOLLOUT) != 0) flush(link);
        if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive(link);
      }
      lost = lost_;
    }
    if (!lost.empty()) interruption_->stop(lost);
  }
  if (interruption_->stopped()) tell_stop();
}

void TcpHub::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(alarm_, &one, sizeof one);
  turns_.notify_all();
  const std::lock_guard lock(mutex_);
  for (Operation* operation : operations_) operation->changed.notify_one();
  left_.notify_all();
}

/// So that the peers know why; without a word where a message is under way: they see that we leave.
void TcpHub::tell_stop() {
  const std::string reason = interruption_->reason().substr(0, longest_reason);
  const std::lock_guard lock(mutex_);
  for (Link& link : links_) {
    if (!link.socket || link.gone) continue;
    if (link.written == 0) {
      std::string frame(sizeof(Header), '\0');
      const Header header{Kind::stop, 0, 0, 0, reason.size()};
      std::memcpy(frame.data(), &header, sizeof header);
      frame += reason;
      [[maybe_unused]] const ssize_t sent =
          ::send(link.socket.descriptor(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    ::shutdown(link.socket.descriptor(), SHUT_WR);
  }
}

void TcpHub::leave(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  for (Link& link : links_) {
    if (!link.socket || link.gone) continue;
    link.out.push_back({{Kind::good_bye, 0, 0, 0, 0}, {}});
    flush(link);
  }
  left_.wait_for(lock, patience, [&] {
    return interruption_->stopped() || std::all_of(links_.begin(), links_.end(), [](const Link& link) {
             return !link.socket || link.gone || link.heard_good_bye;
           });
  });
}

}  // namespace penstock::transport
