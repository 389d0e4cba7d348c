// Hanayo (arXiv 2308.15762): one copy whose stages run down and up the ranks w times (v = 2w chunks). At most
// P micro-batches are in flight. In every slot a rank takes a backward before a forward, and the oldest
// micro-batch first; slots of equal length pack better than those of B = 2F.
#include <vector>

#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"

namespace penstock::schedule {

Schedule hanayo(const ScheduleOptions& options) {
  Schedule schedule = zig_zag("hanayo", options);
  const int P = options.ranks;
  const int M = options.micro_batches;
  const auto last = static_cast<size_t>(schedule.stages()) - 1;
  const std::vector<std::vector<int>> stages = schedule.stages_by_rank();

  // Micro-batches that each stage has done, by the end of the slot before and of this one.
  std::vector<int> forwards(last + 1, 0);
  std::vector<int> backwards(last + 1, 0);
  while (backwards[0] < M) {
    std::vector<int> forwards_now = forwards;
    std::vector<int> backwards_now = backwards;
    for (int r = 0; r < P; ++r) {
      Action best{Op::forward, -1, M};
      for (const int stage : stages[static_cast<size_t>(r)]) {
        const auto s = static_cast<size_t>(stage);
        const int f = forwards[s];
        const int b = backwards[s];
        const int may_forward = s == 0 ? backwards[0] + P : forwards[s - 1];
        const int may_backward = s == last ? forwards[s] : backwards[s + 1];
        if (b < may_backward && (best.op == Op::forward || b < best.micro_batch)) {
          best = {Op::backward, stage, b};
        } else if (f < may_forward && best.op == Op::forward && f < best.micro_batch) {
          best = {Op::forward, stage, f};
        }
      }
      if (best.stage < 0) continue;
      ++(best.op == Op::forward ? forwards_now : backwards_now)[static_cast<size_t>(best.stage)];
      schedule.actions[static_cast<size_t>(r)].push_back(best);
    }
    forwards = forwards_now;
    backwards = backwards_now;
  }
  return schedule;
}

}  // namespace penstock::schedule
