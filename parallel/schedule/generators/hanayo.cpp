// Hanayo (arXiv 2308.15762): one copy whose stages run down and up the ranks w times (v = 2w chunks). At most
// P micro-batches are in flight; a rank takes a backward before a forward, the oldest micro-batch first (F =
// 1, B = 2).
#include <vector>

#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"

namespace penstock::schedule {

namespace {

// Micro-batches a stage has started, and when each will have ended.
struct Progress {
  std::vector<int> ends;
  int started() const { return static_cast<int>(ends.size()); }
  bool ended(int micro_batch, int now) const {
    return micro_batch < started() && ends[static_cast<size_t>(micro_batch)] <= now;
  }
};

}  // namespace

Schedule hanayo(const ScheduleOptions& options) {
  Schedule schedule = zig_zag("hanayo", options);
  const int S = schedule.stages();
  const int M = options.micro_batches;
  std::vector<Progress> forward(static_cast<size_t>(S));
  std::vector<Progress> backward(static_cast<size_t>(S));
  std::vector<std::vector<int>> stages;
  for (int r = 0; r < options.ranks; ++r) stages.push_back(schedule.stages_of(r));
  std::vector<int> free_at(static_cast<size_t>(options.ranks), 0);

  for (int now = 0; backward[0].started() < M; ++now) {
    for (size_t r = 0; r < free_at.size(); ++r) {
      if (free_at[r] > now) continue;
      Action best{Op::forward, -1, M};
      for (const int stage : stages[r]) {
        const auto s = static_cast<size_t>(stage);
        const int b = backward[s].started();
        const int f = forward[s].started();
        const bool backward_ready = b < M && (stage == S - 1 ? forward[s] : backward[s + 1]).ended(b, now);
        const bool enters = f < options.ranks || backward[0].ended(f - options.ranks, now);
        const bool forward_ready = f < M && (stage == 0 ? enters : forward[s - 1].ended(f, now));
        if (backward_ready && (best.op == Op::forward || b < best.micro_batch))
          best = {Op::backward, stage, b};
        if (forward_ready && best.op == Op::forward && f < best.micro_batch) best = {Op::forward, stage, f};
      }
      if (best.stage < 0) continue;
      free_at[r] = now + (best.op == Op::forward ? 1 : 2);
      (best.op == Op::forward ? forward : backward)[static_cast<size_t>(best.stage)].ends.push_back(
          free_at[r]);
      schedule.actions[r].push_back(best);
    }
  }
  return schedule;
}

}  // namespace penstock::schedule
