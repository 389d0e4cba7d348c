#include "trainer/accounting/record.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace penstock::accounting {
namespace {

struct Head {
  double origin = 0;
  double unit = 0;
  double offered = 0;
  double agreed = 0;
  double clock_error = 0;
  double memory_peak = 0;
  InstructionTimes optimizer_before;
  std::array<HostInterval, RankTimes::kept_intervals> host{};
  std::array<Interval, RankTimes::kept_standstills> standstills{};
};

// 0 stands for a time that nobody looked at.
constexpr double largest = std::numeric_limits<uint32_t>::max() - 1;

struct Ticks {
  uint32_t enqueued = 0;
  uint32_t start = 0;
  uint32_t middle = 0;
  uint32_t end = 0;
};

uint32_t tick_of(double seconds, const Head& head) {
  if (seconds == 0) return 0;
  const double ticks = head.unit > 0 ? std::round((seconds - head.origin) / head.unit) : 0;
  return 1 + static_cast<uint32_t>(std::clamp(ticks, 0.0, largest));
}

double seconds_of(uint32_t tick, const Head& head) {
  return tick == 0 ? 0 : head.origin + head.unit * static_cast<double>(tick - 1);
}

}  // namespace

size_t record_bytes(size_t instructions, size_t stages) {
  return sizeof(Head) + stages * sizeof(double) + instructions * sizeof(Ticks);
}

void write_record(const RankTimes& times, std::span<std::byte> record) {
  Head head{0,
            0,
            times.offered,
            times.agreed,
            times.clock_error,
            times.memory_peak,
            times.optimizer_before,
            times.host,
            times.standstills};
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  for (const InstructionTimes& at : times.instructions) {
    if (at.enqueued != 0) first = std::min(first, at.enqueued);
    first = std::min({first, at.start, at.end});
    last = std::max({last, at.enqueued, at.start, at.end});
  }
  if (last >= first) {
    head.origin = first;
    head.unit = (last - first) / largest;
  }
  std::memcpy(record.data(), &head, sizeof head);
  std::byte* to = record.data() + sizeof head;
  const size_t bytes = times.recompute.size() * sizeof(double);
  if (bytes > 0) std::memcpy(to, times.recompute.data(), bytes);
  to += bytes;
  for (const InstructionTimes& at : times.instructions) {
    // A virtual clock begins at 0, which is a time like any other for start and end.
    const Ticks ticks{tick_of(at.enqueued, head), std::max(1U, tick_of(at.start, head)),
                      tick_of(at.middle, head), std::max(1U, tick_of(at.end, head))};
    std::memcpy(to, &ticks, sizeof ticks);
    to += sizeof ticks;
  }
}

void read_record(std::span<const std::byte> record, RankTimes& times) {
  Head head;
  std::memcpy(&head, record.data(), sizeof head);
  times.offered = head.offered;
  times.agreed = head.agreed;
  times.clock_error = head.clock_error;
  times.memory_peak = head.memory_peak;
  times.optimizer_before = head.optimizer_before;
  times.host = head.host;
  times.standstills = head.standstills;
  const std::byte* from = record.data() + sizeof head;
  const size_t bytes = times.recompute.size() * sizeof(double);
  if (bytes > 0) std::memcpy(times.recompute.data(), from, bytes);
  from += bytes;
  for (InstructionTimes& at : times.instructions) {
    Ticks ticks;
    std::memcpy(&ticks, from, sizeof ticks);
    from += sizeof ticks;
    at = {seconds_of(ticks.enqueued, head), seconds_of(ticks.start, head), seconds_of(ticks.middle, head),
          seconds_of(ticks.end, head)};
  }
}

}  // namespace penstock::accounting
