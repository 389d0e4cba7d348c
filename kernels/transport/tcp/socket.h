#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace penstock::transport {

/// When to give up.
using Deadline = std::chrono::steady_clock::time_point;

/// Host and port as numbers.
struct Endpoint {
  std::string host;
  int port = 0;
};

/// A TCP socket. Until make_nonblocking() its calls wait, up to a deadline. Errors are DeviceErrors that say
/// what was done with whom.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void close();

  /// Listens on `port` of all addresses; 0: one that is free.
  static Socket listen(int port);
  /// Why `host` has no address; empty: it has one.
  static std::string unknown(const std::string& host);
  /// Tries again until the deadline: the other side may start later.
  static Socket connect(const std::string& host, int port, Deadline deadline);
  /// The next connection; empty at the deadline.
  Socket accept(Deadline deadline) const;

  Endpoint local() const;
  Endpoint peer() const;

  /// Whether something can be read, or the peer has left, before the deadline.
  bool readable(Deadline deadline) const;
  /// Sends a line; DeviceError if it cannot.
  void write_line(const std::string& line) const;
  /// The next line, of at most 64 KiB, without its end. Empty: the peer sent none in time, left, or sends
  /// what is no line. Reads not a byte beyond it.
  std::string read_line(Deadline deadline) const;

  /// From now on calls return at once; small messages leave at once.
  void make_nonblocking() const;

 private:
  int descriptor_ = -1;
};

/// DeviceError: "<doing>: <reason of errno>".
[[noreturn]] void throw_socket_error(const std::string& doing, int error);

}  // namespace penstock::transport
