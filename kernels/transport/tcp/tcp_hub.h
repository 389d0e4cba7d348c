#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/wait_point.h"
#include "kernels/transport/interruption.h"
#include "kernels/transport/tcp/socket.h"

namespace penstock::transport {

/// A message between two processes. Both name the same channel, sequence and bytes.
struct TcpTransfer {
  std::byte* data = nullptr;
  size_t bytes = 0;
  uint32_t channel = 0;
  uint32_t sequence = 0;
  int peer = 0;  ///< world rank, possibly our own
  bool sends = false;
};

/// The connections of a process with all others, and the thread that serves them.
///
/// A receiver asks for a message when its memory is there; a sender answers with the data when it has both
/// the question and the data. What a socket does not take at once is left to the thread, which sleeps in
/// epoll. After a stop nothing is read into or sent from anybody's memory.
///
/// Wire: frames of a header, in the byte order of little-endian machines, and for data and the reason of a
/// stop as many bytes as it says.
class TcpHub {
 public:
  /// peers[r]: the connection with world rank r; none for our own.
  TcpHub(int rank, std::vector<Socket> peers);
  ~TcpHub();
  TcpHub(const TcpHub&) = delete;
  TcpHub& operator=(const TcpHub&) = delete;

  struct Failure {
    size_t index = 0;  ///< of the transfer
    std::string reason;
  };
  /// Runs all of them at once and returns when all are complete; or with why one will not be. Callable from
  /// many threads.
  std::optional<Failure> run(std::span<const TcpTransfer> transfers);

  /// Says good-bye to all and waits until all have, or `patience` is over.
  void leave(std::chrono::milliseconds patience);

  int rank() const { return rank_; }
  const std::shared_ptr<Interruption>& interruption() const { return interruption_; }
  /// Where collectives wait for their turn; roused when the world stops.
  cpu::WaitPoint& turns() { return turns_; }

 private:
  enum class Kind : uint32_t { ask = 1, data, differs, good_bye, stop };
  struct Header {
    Kind kind = Kind::ask;
    uint32_t channel = 0;
    uint32_t sequence = 0;
    uint32_t unused = 0;
    uint64_t bytes = 0;
  };
  /// A call of run(), on its caller's stack.
  struct Operation {
    size_t open = 0;
    std::optional<Failure> failure;
    std::condition_variable changed;
  };
  struct Posted {
    TcpTransfer transfer;
    Operation* operation = nullptr;
    size_t index = 0;
  };
  struct Outgoing {
    Header header;
    Posted posted;  ///< data: whose
  };
  struct Link {
    int peer = 0;
    Socket socket;
    std::vector<Posted> sends;     ///< not asked for yet
    std::vector<Posted> receives;  ///< asked for
    std::vector<Header> asked;     ///< by the peer, for what is not there yet
    // Out: the first of `out` is under way.
    std::vector<Outgoing> out;
    size_t first_out = 0;
    size_t written = 0;  ///< of its header and data
    bool waits_for_room = false;
    // In.
    Header head;
    size_t head_bytes = 0;
    Posted reading;
    size_t body_bytes = 0;
    std::string reason;  ///< of a stop
    bool said_good_bye = false;
    bool heard_good_bye = false;
    bool gone = false;
  };

  // With mutex_ held.
  void post(const Posted& posted);
  void answer(Link& link, const Posted& posted, uint64_t asked_bytes);
  void meet_ourselves(Link& self, const Posted& posted);
  void flush(Link& link);
  bool send_some(Link& link);
  void receive(Link& link);
  bool receive_some(Link& link);
  void handle_header(Link& link);
  void handle_body(Link& link);
  void lose(Link& link, const std::string& why);
  void complete(const Posted& posted);
  static void fail(const Posted& posted, std::string reason);
  std::string name_of(const Link& link) const;

  void serve();
  void wake();
  void tell_stop();

  const int rank_;
  std::vector<Link> links_;  ///< by world rank
  cpu::WaitPoint turns_;
  std::shared_ptr<Interruption> interruption_;
  int epoll_ = -1;
  int alarm_ = -1;  ///< eventfd
  std::mutex mutex_;
  std::condition_variable left_;
  std::vector<Operation*> operations_;
  std::string lost_;  ///< why the world is to be stopped, found while mutex_ was held
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::transport
