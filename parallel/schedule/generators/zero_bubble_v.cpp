// ZBV (arXiv 2405.15362): two chunks a rank in the shape of a V. Rank r owns stage r (chunk 0) and stage
// 2P−1−r (chunk 1): the loss is on rank 0, and stages P−1 and P meet on the last rank.
#include <algorithm>

#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"
#include "parallel/schedule/generators/rank_writer.h"

namespace penstock::schedule {

Schedule zero_bubble_v(const ScheduleOptions& options) {
  Schedule schedule = zig_zag("zbv", options);
  const int P = options.ranks;
  const int M = options.micro_batches;
  schedule.micro_batches =
      std::max(2 * P - 1, M);  // the pattern needs that many; those beyond M are dropped below
  for (int r = 0; r < P; ++r) {
    RankWriter rank(schedule, r);
    const int s0 = r;
    const int s1 = 2 * P - 1 - r;
    const auto backward_1 = [&] { rank.backward_input(s1), rank.backward_weight_of(s1); };
    const auto backward_0 = [&] { rank.backward_input(s0), rank.backward_weight_of(s0); };
    for (int i = 0; i < 2 * (P - r) - 1; ++i) rank.forward(s0);
    for (int i = 0; i < r; ++i) rank.forward(s1), rank.forward(s0);
    for (int i = 0; i < P - r; ++i) rank.forward(s1), backward_1();
    while (rank.forward_remains(s0) || rank.forwards(s1) < rank.forwards(s0)) {
      rank.forward(s0);
      backward_0();
      rank.forward(s1);
      backward_1();
    }
    for (int i = 0; i < r; ++i) rank.backward_input(s0), rank.backward_input(s1);
    for (int i = 0; i < P - r; ++i) backward_0();
    while (rank.weights(s1) < rank.backwards(s1)) rank.backward_weight_of(s1);
    while (rank.weights(s0) < rank.backwards(s0)) rank.backward_weight_of(s0);
    std::erase_if(schedule.actions[static_cast<size_t>(r)],
                  [M](const Action& a) { return a.micro_batch >= M; });
  }
  schedule.micro_batches = M;
  return schedule;
}

}  // namespace penstock::schedule
