#include "trainer/watchdog/line_link.h"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace penstock::watchdog {

LineLink::LineLink(transport::Socket socket) : socket_(std::move(socket)) {
  socket_.make_nonblocking();
}

void LineLink::send(const std::string& line) {
  if (!socket_) return;
  if (out_.size() + line.size() <= most_waiting) out_ += line;
  flush();
}

void LineLink::flush() {
  while (socket_ && !out_.empty()) {
    const ssize_t sent = ::send(descriptor(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      out_.erase(0, static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      out_.clear();  // reading finds that the peer is gone, behind what it said last
      return;
    }
  }
}

std::vector<std::string> LineLink::receive() {
  std::array<char, 16384> bytes{};
  while (socket_ && in_.size() <= most_waiting) {
    const ssize_t count = ::recv(descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      in_.append(bytes.data(), static_cast<size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    socket_.close();
  }
  if (in_.size() > most_waiting && in_.find('\n') == std::string::npos) socket_.close();
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = in_.find('\n'); end != std::string::npos; end = in_.find('\n', begin)) {
    lines.push_back(in_.substr(begin, end - begin));
    begin = end + 1;
  }
  in_.erase(0, begin);
  return lines;
}

}  // namespace penstock::watchdog
