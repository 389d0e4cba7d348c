// 1F1B (arXiv 1806.03377, 2006.09503): a warm-up that shrinks along the ranks, then one forward, one
// backward.
#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"
#include "parallel/schedule/generators/rank_writer.h"

namespace penstock::schedule {

Schedule one_forward_one_backward(const ScheduleOptions& options) {
  Schedule schedule = looped("1f1b", options);
  const int last = options.ranks - 1;
  for (int r = 0; r < options.ranks; ++r) {
    RankWriter rank(schedule, r);
    const int warm_up = last - r + (r < last ? options.warmup_slack : 0);
    for (int i = 0; i < warm_up && rank.forward_remains(r); ++i) rank.forward(r);
    while (rank.backward_remains(r)) {
      rank.forward(r);
      rank.backward(r);
    }
  }
  return schedule;
}

}  // namespace penstock::schedule
