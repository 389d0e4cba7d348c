// Chimera (arXiv 2107.06925): a down and an up pipeline, each 1F1B with half of the micro-batches. In slots
// of equal length the forwards of one fall where the other is idle, because r and P−1−r differ in parity.
#include <algorithm>
#include <utility>
#include <vector>

#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"

namespace penstock::schedule {

Schedule chimera(const ScheduleOptions& options) {
  Schedule schedule = two_way("chimera", options);
  const int P = options.ranks;
  const int half = options.micro_batches / 2;
  for (int r = 0; r < P; ++r) {
    std::vector<std::pair<int, Action>> slots;
    for (int copy = 0; copy < 2; ++copy) {
      const int block = copy == 0 ? r : P - 1 - r;
      for (int m = 0; m < half; ++m) {
        // A unit of P micro-batches fills 2P slots; the next one starts where its forwards fill the drain.
        const int unit = m / (P / 2);
        const int start = 2 * P * unit + 2 * (m % (P / 2));
        const int stage = copy * P + block;
        slots.push_back({start + block, {Op::forward, stage, copy * half + m}});
        slots.push_back({start + 2 * P - 1 - block, {Op::backward, stage, copy * half + m}});
      }
    }
    std::sort(slots.begin(), slots.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [slot, action] : slots) schedule.actions[static_cast<size_t>(r)].push_back(action);
  }
  return schedule;
}

}  // namespace penstock::schedule
