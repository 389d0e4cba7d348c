#pragma once

#include <string>
#include <vector>

#include "kernels/transport/tcp/socket.h"

namespace penstock::watchdog {

/// A connection of the control channel. No call waits.
class LineLink {
 public:
  LineLink() = default;
  /// `socket` is connected, and is made nonblocking.
  explicit LineLink(transport::Socket socket);

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int descriptor() const { return socket_.descriptor(); }
  bool wants_to_write() const { return !out_.empty(); }

  /// Sends what it can at once and the rest later. What a peer does not take for long is dropped: it is as
  /// good as silent.
  void send(const std::string& line);
  void flush();
  /// The lines that are there. Closes where the peer has closed or reset the connection.
  std::vector<std::string> receive();
  void close() { socket_.close(); }

 private:
  static constexpr size_t most_waiting = size_t{1} << 20;  ///< bytes either way

  transport::Socket socket_;
  std::string in_;
  std::string out_;
};

}  // namespace penstock::watchdog
