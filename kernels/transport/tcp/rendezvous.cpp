#include "kernels/transport/tcp/rendezvous.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/device/error.h"
#include "kernels/transport/launch.h"

namespace penstock::transport {
namespace {

using std::chrono::steady_clock;

// "penstock-tcp 1": the protocol and its version, which every line begins with.
constexpr const char* protocol = "penstock-tcp";
constexpr int version = 1;

/// What a process says of itself.
struct Hello {
  std::string attempt;
  int rank = -1;
  int ranks = 0;
  int port = 0;
};

std::string one_word(std::string text) {
  for (char& c : text)
    if (c <= ' ' || c > '~') c = '_';
  return text.empty() ? "-" : text;
}

std::string line_of(const Hello& hello) {
  return fmt::format("{} {} {} {} {} {}", protocol, version, one_word(hello.attempt), hello.rank, hello.ranks,
                     hello.port);
}

/// Empty where all is well, "?" for what is no hello, else why it does not belong here.
std::string read(const std::string& line, const Hello& ours, Hello& theirs) {
  std::istringstream words(line);
  std::string name;
  int their_version = 0;
  if (!(words >> name >> their_version) || name != protocol) return "?";
  if (their_version != version)
    return fmt::format(
        "it speaks version {} of the start-up protocol, and this one {}: start one build everywhere",
        their_version, version);
  if (!(words >> theirs.attempt >> theirs.rank >> theirs.ranks >> theirs.port)) return "?";
  if (theirs.attempt != one_word(ours.attempt))
    return fmt::format(
        "it belongs to attempt {}, and this one to {}: a process of an earlier start is left over",
        theirs.attempt, one_word(ours.attempt));
  if (theirs.ranks != ours.ranks)
    return fmt::format("it was told of {} ranks, and this one of {}: start all with the same number",
                       theirs.ranks, ours.ranks);
  if (theirs.rank < 0 || theirs.rank >= ours.ranks)
    return fmt::format("it says that it is rank {}; ranks are 0 to {}", theirs.rank, ours.ranks - 1);
  return {};
}

/// What rank 0 knows of the others.
struct Guest {
  Socket socket;
  Endpoint listens;
};

std::string missing(const std::vector<Guest>& guests) {
  std::vector<size_t> ranks;
  for (size_t rank = 1; rank < guests.size(); ++rank)
    if (!guests[rank].socket) ranks.push_back(rank);
  const bool many = ranks.size() > 8;
  if (many) ranks.resize(8);
  return fmt::format("{}{}", fmt::join(ranks, ", "), many ? ", …" : "");
}

void take_in(Socket socket, const Hello& ours, std::vector<Guest>& guests, int& there) {
  // A stranger that says nothing must not hold up the others for long.
  const std::string line = socket.read_line(steady_clock::now() + std::chrono::seconds(5));
  Hello theirs;
  std::string refusal = read(line, ours, theirs);
  if (refusal == "?") return;
  if (refusal.empty() && theirs.rank == 0) refusal = "rank 0 is here";
  if (refusal.empty() && guests[static_cast<size_t>(theirs.rank)].socket)
    refusal = fmt::format("rank {} is here already, from {}", theirs.rank,
                          guests[static_cast<size_t>(theirs.rank)].listens.host);
  const std::string host = socket.peer().host;
  if (!refusal.empty()) {
    std::fprintf(stderr, "penstock: a process on %s was turned away: %s\n", host.c_str(), refusal.c_str());
    socket.write_line(fmt::format("{} {} refused {}", protocol, version, refusal));
    return;
  }
  guests[static_cast<size_t>(theirs.rank)] = {std::move(socket), {host, theirs.port}};
  ++there;
}

// Who waits for others says so now and then: nothing else tells a rank that was not started from one that is
// slow.
constexpr auto say_every = std::chrono::seconds(10);
void say_waiting(const TcpPlace& place, const std::string& what, Deadline deadline) {
  const double left = std::chrono::duration<double>(deadline - steady_clock::now()).count();
  std::fprintf(stderr, "penstock: rank %d of %d waits %s; another %.0f s (watchdog.start_s)\n", place.rank,
               place.ranks, what.c_str(), std::max(0.0, left));
}

std::vector<Guest> receive_all(const TcpPlace& place, Deadline deadline, std::chrono::milliseconds patience) {
  const Socket door = [&] {
    try {
      return Socket::listen(place.port);
    } catch (const DeviceError& error) {
      throw LaunchError(fmt::format("{}: set comm.port to one that is free on rank 0's host", error.what()));
    }
  }();
  const Hello ours{place.attempt, 0, place.ranks, place.port};
  std::vector<Guest> guests(static_cast<size_t>(place.ranks));
  for (int there = 1; there < place.ranks;) {
    Socket socket = door.accept(std::min(deadline, steady_clock::now() + say_every));
    if (!socket && steady_clock::now() < deadline) {
      say_waiting(place,
                  fmt::format("at port {} for rank{} {}", place.port, place.ranks - there == 1 ? "" : "s",
                              missing(guests)),
                  deadline);
      continue;
    }
    if (!socket) {
      throw StartTimeout(fmt::format(
          "{} of {} ranks met at port {} within {} s; missing: {}. Is comm.address ({}) this host, as "
          "they see it, and is the port open?",
          there, place.ranks, place.port, std::chrono::duration<double>(patience).count(), missing(guests),
          place.address));
    }
    try {
      take_in(std::move(socket), ours, guests, there);
    } catch (const DeviceError&) {
      continue;  // it left; if it is one of ours it will be missed
    }
  }
  std::string everyone = fmt::format("{} {} welcome", protocol, version);
  for (const Guest& guest : guests)
    everyone += fmt::format(" {} {}", guest.socket ? guest.listens.host : "-", guest.listens.port);
  for (size_t rank = 1; rank < guests.size(); ++rank) guests[rank].socket.write_line(everyone);
  return guests;
}

/// Tells rank 0 where we listen; where the others do, by rank.
std::vector<Endpoint> introduce(const TcpPlace& place, const Socket& rank_zero, int port, Deadline deadline) {
  rank_zero.write_line(line_of({place.attempt, place.rank, place.ranks, port}));
  while (!rank_zero.readable(std::min(deadline, steady_clock::now() + say_every)) &&
         steady_clock::now() < deadline)
    say_waiting(place, fmt::format("for rank 0 at {} port {}, and it for others", place.address, place.port),
                deadline);
  const std::string answer = rank_zero.read_line(deadline);
  std::istringstream words(answer);
  std::string name;
  std::string verdict;
  int their_version = 0;
  const auto where = fmt::format("{} port {}", place.address, place.port);
  if (!(words >> name >> their_version >> verdict) || name != protocol) {
    const std::string text = fmt::format(
        "rank {}: what listens at {} gave no answer of a rank 0{}: either other ranks are missing there (its "
        "log "
        "says which), or comm.address or comm.port is another program's",
        place.rank, where, answer.empty() ? " in time" : "");
    if (steady_clock::now() >= deadline) throw StartTimeout(text);
    throw LaunchError(text);
  }
  if (verdict == "refused") {
    std::string reason;
    std::getline(words, reason);
    throw LaunchError(fmt::format("rank {} was turned away by rank 0 at {}:{}", place.rank, where, reason));
  }
  std::vector<Endpoint> all(static_cast<size_t>(place.ranks));
  for (Endpoint& one : all) {
    if (!(words >> one.host >> one.port))
      throw LaunchError(
          fmt::format("rank {}: rank 0 at {} named not all of {} ranks", place.rank, where, place.ranks));
  }
  return all;
}

/// Rank 0 may start later; a name that nobody knows will not be known later.
Socket reach_rank_zero(const TcpPlace& place, Deadline deadline) {
  const Deadline patient = std::min(deadline, steady_clock::now() + say_every);
  for (std::string reason; !(reason = Socket::unknown(place.address)).empty();) {
    if (steady_clock::now() >= patient)
      throw LaunchError(
          fmt::format("rank {} of {} looks for rank 0 at \"{}\", which is no host that it knows ({}): set "
                      "comm.address, or "
                      "MASTER_ADDR in the environment, to rank 0's host",
                      place.rank, place.ranks, place.address, reason));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  while (true) {
    try {
      return Socket::connect(place.address, place.port, std::min(deadline, steady_clock::now() + say_every));
    } catch (const DeviceError& error) {
      if (steady_clock::now() >= deadline) throw;
      say_waiting(place, fmt::format("for rank 0 ({})", error.what()), deadline);
    }
  }
}

std::vector<Socket> join(const TcpPlace& place, Deadline deadline) {
  std::vector<Socket> peers(static_cast<size_t>(place.ranks));
  const Socket door = Socket::listen(0);
  peers[0] = reach_rank_zero(place, deadline);
  const std::vector<Endpoint> all = introduce(place, peers[0], door.local().port, deadline);
  const std::string hello = line_of({place.attempt, place.rank, place.ranks, 0});
  for (int lower = 1; lower < place.rank; ++lower) {
    const Endpoint& at = all[static_cast<size_t>(lower)];
    Socket& peer = peers[static_cast<size_t>(lower)];
    peer = Socket::connect(at.host, at.port, deadline);
    peer.write_line(hello);
  }
  for (int left = place.ranks - 1 - place.rank; left > 0;) {
    Socket socket = door.accept(deadline);
    if (!socket) throw DeviceError(fmt::format("{} ranks above this one did not connect in time", left));
    Hello theirs;
    const std::string line = socket.read_line(steady_clock::now() + std::chrono::seconds(5));
    if (!read(line, {place.attempt, place.rank, place.ranks, 0}, theirs).empty()) continue;
    if (theirs.rank <= place.rank || peers[static_cast<size_t>(theirs.rank)]) continue;
    peers[static_cast<size_t>(theirs.rank)] = std::move(socket);
    --left;
  }
  return peers;
}

}  // namespace

std::vector<Socket> meet(const TcpPlace& place, const TcpOptions& options) {
  if (place.ranks < 1 || place.rank < 0 || place.rank >= place.ranks || place.port < 1 ||
      place.port > 65535) {
    throw LaunchError(fmt::format("rank {} of {} at {} port {}: ranks are 0 to ranks - 1, ports 1 to 65535",
                                  place.rank, place.ranks, place.address, place.port));
  }
  const Deadline deadline = steady_clock::now() + options.start;
  std::vector<Socket> peers;
  if (place.rank == 0) {
    for (Guest& guest : receive_all(place, deadline, options.start)) peers.push_back(std::move(guest.socket));
  } else {
    try {
      peers = join(place, deadline);
    } catch (const DeviceError& error) {
      const std::string text = fmt::format("rank {} of {} could not join the others at {} port {}: {}",
                                           place.rank, place.ranks, place.address, place.port, error.what());
      if (steady_clock::now() >= deadline) throw StartTimeout(text);
      throw LaunchError(text);
    }
  }
  for (const Socket& peer : peers)
    if (peer) peer.make_nonblocking();
  return peers;
}

}  // namespace penstock::transport
