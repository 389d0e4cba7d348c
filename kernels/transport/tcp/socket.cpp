#include "kernels/transport/tcp/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels/device/error.h"

namespace penstock::transport {
namespace {

using std::chrono::milliseconds;

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
}

/// Whether something can be read before the deadline.
bool can_read(int descriptor, Deadline deadline) {
  pollfd what{descriptor, POLLIN, 0};
  for (;;) {
    const int found = ::poll(&what, 1, milliseconds_until(deadline));
    if (found >= 0) return found > 0;
    if (errno != EINTR) throw_socket_error("waiting for a TCP peer", errno);
  }
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Empty with a reason where the name is not known (yet).
Addresses addresses_of(const std::string& host, int port, std::string& reason) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) reason = gai_strerror(code);
  return {found, freeaddrinfo};
}

Endpoint endpoint(int descriptor, int (*name)(int, sockaddr*, socklen_t*), const char* doing) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (name(descriptor, address, &size) != 0) throw_socket_error(doing, errno);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  const int code = getnameinfo(address, size, host.data(), host.size(), service.data(), service.size(),
                               NI_NUMERICHOST | NI_NUMERICSERV);
  if (code != 0) throw DeviceError(fmt::format("{}: {}", doing, gai_strerror(code)));
  std::string text(host.data());
  // One socket takes both families; IPv4 peers are then shown as IPv6.
  constexpr std::string_view mapped = "::ffff:";
  if (text.compare(0, mapped.size(), mapped) == 0) text.erase(0, mapped.size());
  return {text, std::stoi(service.data())};
}

}  // namespace

void throw_socket_error(const std::string& doing, int error) {
  throw DeviceError(fmt::format("{}: {}", doing, std::generic_category().message(error)));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Socket Socket::listen(int port) {
  const std::string doing =
      port == 0 ? std::string("listening on a free TCP port") : fmt::format("listening on TCP port {}", port);
  for (const int family : {AF_INET6, AF_INET}) {
    Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) {
      if (family == AF_INET) throw_socket_error(doing, errno);
      continue;  // a machine without IPv6
    }
    const int on = 1;
    const int off = 0;
    setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 six{};
    sockaddr_in four{};
    const sockaddr* address = nullptr;
    socklen_t size = 0;
    if (family == AF_INET6) {
      setsockopt(socket.descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(static_cast<uint16_t>(port));
      six.sin6_addr = in6addr_any;
      address = reinterpret_cast<const sockaddr*>(&six);
      size = sizeof six;
    } else {
      four.sin_family = AF_INET;
      four.sin_port = htons(static_cast<uint16_t>(port));
      address = reinterpret_cast<const sockaddr*>(&four);
      size = sizeof four;
    }
    if (::bind(socket.descriptor_, address, size) != 0) {
      if (family == AF_INET6 && errno == EADDRNOTAVAIL) continue;
      throw_socket_error(doing, errno);
    }
    if (::listen(socket.descriptor_, SOMAXCONN) != 0) throw_socket_error(doing, errno);
    return socket;
  }
  throw DeviceError(doing + ": neither IPv6 nor IPv4 is there");
}

std::string Socket::unknown(const std::string& host) {
  std::string reason;
  return addresses_of(host, 0, reason) ? std::string() : reason;
}

Socket Socket::connect(const std::string& host, int port, Deadline deadline) {
  std::string reason;
  for (milliseconds pause(5);; pause = std::min(2 * pause, milliseconds(500))) {
    const Addresses found = addresses_of(host, port, reason);
    for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
      Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
      if (!socket) {
        reason = std::generic_category().message(errno);
        continue;
      }
      int error = ::connect(socket.descriptor_, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
      if (error == EINPROGRESS) {
        pollfd what{socket.descriptor_, POLLOUT, 0};
        if (::poll(&what, 1, milliseconds_until(deadline)) > 0) {
          socklen_t size = sizeof error;
          if (getsockopt(socket.descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
        } else {
          error = ETIMEDOUT;
        }
      }
      if (error != 0) {
        reason = std::generic_category().message(error);
        continue;
      }
      const int flags = ::fcntl(socket.descriptor_, F_GETFL);
      if (flags < 0 || ::fcntl(socket.descriptor_, F_SETFL, flags & ~O_NONBLOCK) != 0)
        throw_socket_error(fmt::format("connecting with {} port {}", host, port), errno);
      return socket;
    }
    if (std::chrono::steady_clock::now() + pause >= deadline)
      throw DeviceError(fmt::format("connecting with {} port {}: {}", host, port, reason));
    std::this_thread::sleep_for(pause);
  }
}

Socket Socket::accept(Deadline deadline) const {
  while (can_read(descriptor_, deadline)) {
    Socket socket(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) return socket;
    // One that left before it was taken in is nobody's loss.
    if (errno != ECONNABORTED && errno != EINTR && errno != EAGAIN)
      throw_socket_error("taking in a TCP peer", errno);
  }
  return Socket();
}

bool Socket::readable(Deadline deadline) const {
  return can_read(descriptor_, deadline);
}

Endpoint Socket::local() const {
  return endpoint(descriptor_, getsockname, "asking a TCP socket for its address");
}

Endpoint Socket::peer() const {
  return endpoint(descriptor_, getpeername, "asking a TCP socket for its peer");
}

void Socket::write_line(const std::string& line) const {
  const std::string text = line + '\n';
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = ::send(descriptor_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_socket_error("answering a TCP peer", errno);
    at += static_cast<size_t>(written);
  }
}

std::string Socket::read_line(Deadline deadline) const {
  constexpr size_t longest = 64 * 1024;
  std::string line;
  while (line.size() < longest && can_read(descriptor_, deadline)) {
    char next = 0;
    const ssize_t got = ::recv(descriptor_, &next, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (next == '\n') return line;
    line += next;
  }
  return {};
}

void Socket::make_nonblocking() const {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor_, F_SETFL, flags | O_NONBLOCK) != 0)
    throw_socket_error("making a TCP socket non-blocking", errno);
  const int on = 1;
  if (setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    throw_socket_error("setting TCP_NODELAY", errno);
}

}  // namespace penstock::transport
