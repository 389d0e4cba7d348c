// GPipe (arXiv 1811.06965): all forwards, then all backwards.
#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"
#include "parallel/schedule/generators/rank_writer.h"

namespace penstock::schedule {

Schedule gpipe(const ScheduleOptions& options) {
  Schedule schedule = looped("gpipe", options);
  for (int r = 0; r < options.ranks; ++r) {
    RankWriter rank(schedule, r);
    while (rank.forward_remains(r)) rank.forward(r);
    while (rank.backward_remains(r)) rank.backward(r);
  }
  return schedule;
}

}  // namespace penstock::schedule
