// What the watchdog costs a run: the executor's record of its actions, a list's share of the time that its
// actions take where they are as short as 1 ms; what a rank says once a second, as a share of that second;
// and the same of rank 0 of 64 ranks. Ratios below 1 % are what is claimed.
#include <chrono>
#include <cstdio>
#include <vector>

#include "parallel/runtime/executor.h"
#include "parallel/runtime/flight_record.h"
#include "trainer/watchdog/heartbeat.h"
#include "trainer/watchdog/progress.h"
#include "trainer/watchdog/roll_call.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

template <class Work>
double seconds_each(int times, Work work) {
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) work();
  return std::chrono::duration<double>(Clock::now() - start).count() / times;
}

void run() {
  constexpr size_t actions = 500;
  std::vector<runtime::Step> steps(actions);
  for (size_t at = 0; at < actions; ++at) steps[at].stamp = at;
  const std::vector<runtime::Stamp> nothing;
  std::vector<runtime::Stamp> stamps(actions);
  runtime::FlightRecord record(true);
  double now = 1;
  const double list = seconds_each(2000, [&] {
    record.begin({steps, {stamps, nothing}, now, 0});
    for (runtime::Stamp& stamp : stamps) stamp.start = stamp.end = now;
    record.end();
    now += 1;
  });
  std::printf("flight record: %.2f us a list of %zu actions, %.4f %% of them at 1 ms each\n", 1e6 * list,
              actions, 100 * list / (1e-3 * actions));

  watchdog::Progress progress;
  const double said = seconds_each(100000, [&] {
    progress.begin_step(1);
    progress.end_step(1);
  });
  std::printf("progress: %.1f ns a step\n", 1e9 * said);

  constexpr int ranks = 64;
  record.begin({steps, {stamps, nothing}, now, 0});
  watchdog::RollCall calls(ranks);
  const auto beat = [&](int rank) {
    watchdog::Message message;
    message.beat.rank = rank;
    message.beat.activity = watchdog::activity_of(record.now(), {0, 1}, now);
    watchdog::Message read;
    watchdog::read_message(watchdog::line_of(message), read);
    calls.heard(read.beat, now);
  };
  const double one = seconds_each(1000, [&] { beat(1); });
  std::printf("heartbeat: %.1f us, %.4f %% of its second\n", 1e6 * one, 100 * one);
  const double all = seconds_each(20, [&] {
    for (int rank = 0; rank < ranks; ++rank) beat(rank);
  });
  std::printf("rank 0 of %d: %.1f us, %.4f %% of a second\n", ranks, 1e6 * all, 100 * all);
}

}  // namespace
}  // namespace penstock

int main() {
  penstock::run();
}
