// ZB-H1 and ZB-H2 (arXiv 2401.10241): the backward is split, and W fills what would be bubbles.
#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"
#include "parallel/schedule/generators/rank_writer.h"

namespace penstock::schedule {

namespace {

// k = 1 keeps 1F1B's memory; k = 2 doubles the warm-up, so that forwards fill the first bubble as well.
Schedule zero_bubble(const char* name, const ScheduleOptions& options, int k) {
  Schedule schedule = looped(name, options);
  const int P = options.ranks;
  for (int r = 0; r < P; ++r) {
    RankWriter rank(schedule, r);
    const int warm_up = k * (P - r - 1);
    for (int i = 0; i < warm_up; ++i) rank.forward(r);
    for (int i = 0; i < options.micro_batches; ++i) {
      rank.forward(r);
      rank.backward_input(r);
      if (warm_up + i >= k * (P - 1)) rank.backward_weight();
    }
    while (rank.weight_pending()) rank.backward_weight();
  }
  return schedule;
}

}  // namespace

Schedule zero_bubble_h1(const ScheduleOptions& options) {
  return zero_bubble("zb-h1", options, 1);
}

Schedule zero_bubble_h2(const ScheduleOptions& options) {
  return zero_bubble("zb-h2", options, 2);
}

}  // namespace penstock::schedule
