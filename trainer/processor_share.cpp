#include "trainer/processor_share.h"

#include <array>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "kernels/cpu/processor.h"
#include "kernels/device/host_name.h"

namespace penstock {
namespace {

// A line: the host, and the processors' numbers.
std::string our_seat() {
  std::string text = host_name();
  for (const int processor : cpu::allowed_processors()) text += fmt::format(" {}", processor);
  return text;
}

RankSeat read_seat(const std::string& text) {
  std::istringstream in(text);
  RankSeat seat;
  in >> seat.host;
  for (int processor = 0; in >> processor;) seat.processors.push_back(processor);
  return seat;
}

}  // namespace

std::string ProcessorShare::text() const {
  return fmt::format("{} rank{} x {} thread{} share {} processor{}", ranks, ranks == 1 ? "" : "s", threads,
                     threads == 1 ? "" : "s", processors, processors == 1 ? "" : "s");
}

ProcessorShare most_crowded(const std::vector<RankSeat>& seats, int threads) {
  ProcessorShare worst{1, threads, static_cast<int>(seats.front().processors.size())};
  const auto compare = [&](int ranks, size_t processors) {
    const ProcessorShare share{ranks, threads, static_cast<int>(processors)};
    if (share.load() > worst.load()) worst = share;
  };
  std::map<std::string, std::pair<int, std::set<int>>> hosts;
  for (const RankSeat& seat : seats) {
    auto& [ranks, processors] = hosts[seat.host];
    ++ranks;
    processors.insert(seat.processors.begin(), seat.processors.end());
    compare(1, seat.processors.size());
  }
  for (const auto& [name, host] : hosts) compare(host.first, host.second.size());
  return worst;
}

ProcessorShare processor_share(int64_t threads, transport::World& world) {
  const std::vector<std::string> texts = world.gather(our_seat());
  std::array<int64_t, 3> told{};
  if (world.rank() == 0) {
    std::vector<RankSeat> seats;
    seats.reserve(texts.size());
    for (const std::string& text : texts) seats.push_back(read_seat(text));
    const ProcessorShare share = most_crowded(seats, static_cast<int>(threads));
    told = {share.ranks, share.threads, share.processors};
  }
  world.all_reduce(told, transport::Reduction::maximum);
  return {static_cast<int>(told[0]), static_cast<int>(told[1]), static_cast<int>(told[2])};
}

ProcessorShare processor_share_here(int64_t ranks, int64_t threads) {
  return {static_cast<int>(ranks), static_cast<int>(threads),
          static_cast<int>(cpu::allowed_processors().size())};
}

}  // namespace penstock
