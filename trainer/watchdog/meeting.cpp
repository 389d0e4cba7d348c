#include "trainer/watchdog/meeting.h"

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <random>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include "kernels/device/error.h"
#include "kernels/device/host_name.h"
#include "trainer/watchdog/heartbeat.h"

namespace penstock::watchdog {
namespace {

using std::chrono::steady_clock;
using transport::Socket;

constexpr auto patience = std::chrono::seconds(10);       // for everybody to be there
constexpr auto short_patience = std::chrono::seconds(2);  // for one address, or one answer

/// What rank 0 tells the others of itself: port, token, addresses.
struct Door {
  int port = 0;
  std::string token;
  std::vector<std::string> addresses;
};

/// Of this machine: those that others may reach first, then its own.
std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(at->ifa_addr, sizeof(sockaddr_in), text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
      continue;
    if (std::string(text.data()).rfind("127.", 0) != 0) found.emplace_back(text.data());
  }
  found.emplace_back("127.0.0.1");
  return found;
}

std::string text_of(const Door& door) {
  std::string text = fmt::format("{} {}", door.port, door.token);
  for (const std::string& address : door.addresses) text += " " + address;
  return text;
}

Door door_from(const std::string& text) {
  Door door;
  std::istringstream words(text);
  words >> door.port >> door.token;
  for (std::string word; words >> word;) door.addresses.push_back(word);
  return door;
}

Message hello(int rank, const std::string& token) {
  Message message;
  message.kind = Message::Kind::hello;
  message.rank = rank;
  message.text = token;
  return message;
}

/// Empty where nobody of ours is at that address.
Socket knock(const std::string& address, const Door& door, int rank) {
  try {
    Socket socket = Socket::connect(address, door.port, steady_clock::now() + short_patience);
    std::string line = line_of(hello(rank, door.token));
    line.pop_back();
    socket.write_line(line);
    Message answer;
    if (read_message(socket.read_line(steady_clock::now() + short_patience), answer) &&
        answer.text == door.token)
      return socket;
  } catch (const DeviceError&) {
    return Socket();
  }
  return Socket();
}

void take_in(Socket socket, const Door& door, std::vector<LineLink>& links, int& there) {
  Message theirs;
  if (!read_message(socket.read_line(steady_clock::now() + short_patience), theirs)) return;
  if (theirs.text != door.token || theirs.rank < 1 || theirs.rank >= static_cast<int>(links.size())) return;
  LineLink& link = links[static_cast<size_t>(theirs.rank)];
  if (link) return;
  std::string line = line_of(hello(0, door.token));
  line.pop_back();
  socket.write_line(line);
  link = LineLink(std::move(socket));
  ++there;
}

void receive_all(const Socket& listening, const Door& door, std::vector<LineLink>& links) {
  const auto deadline = steady_clock::now() + patience;
  for (int there = 1; there < static_cast<int>(links.size());) {
    Socket socket = listening.accept(deadline);
    if (!socket) return;
    try {
      take_in(std::move(socket), door, links, there);
    } catch (const DeviceError&) {
      continue;  // it left again
    }
  }
}

}  // namespace

Channel meet(transport::World& world, const std::string& address) {
  Channel channel;
  channel.links.resize(static_cast<size_t>(world.size()));
  Socket listening;
  Door door;
  if (world.rank() == 0) {
    try {
      listening = Socket::listen(0);
      std::random_device random;
      door = {listening.local().port, fmt::format("{:08x}{:08x}", random(), random()), own_addresses()};
      if (!address.empty()) door.addresses.insert(door.addresses.begin(), address);
    } catch (const DeviceError& error) {
      channel.failure = error.what();
    }
  }
  const std::string offer = world.broadcast(door.port == 0 ? "-" + channel.failure : text_of(door), 0);
  channel.places = world.all_gather(fmt::format("process {} on {}", getpid(), host_name()));
  if (offer.front() == '-') {
    channel.failure = fmt::format("rank 0 cannot listen: {}", offer.substr(1));
    return channel;
  }
  door = door_from(offer);
  if (world.rank() == 0) {
    receive_all(listening, door, channel.links);
  } else {
    // On one machine its own address is the shortest way.
    const std::string here = " on " + host_name();
    const std::string& there = channel.places[0];
    if (there.size() >= here.size() && there.compare(there.size() - here.size(), here.size(), here) == 0)
      door.addresses.insert(door.addresses.begin(), "127.0.0.1");
    Socket found;
    for (size_t i = 0; i < door.addresses.size() && !found; ++i)
      found = knock(door.addresses[i], door, world.rank());
    if (found) channel.links[0] = LineLink(std::move(found));
  }
  std::array<int64_t, 1> first{world.rank() == 0 || channel.links[0] ? 0 : world.size() - world.rank()};
  world.all_reduce(first, transport::Reduction::maximum);
  if (first[0] != 0) {
    channel.failure = fmt::format(
        "rank {} could not connect with rank 0 at port {} of {}; with a firewall between, set comm.address "
        "to "
        "an address of rank 0's host whose ports are open",
        world.size() - first[0], door.port, door.addresses.front());
  }
  return channel;
}

}  // namespace penstock::watchdog
