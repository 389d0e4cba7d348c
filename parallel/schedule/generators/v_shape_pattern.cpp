// V-Half and V-Min (arXiv 2405.15362): a stable pattern that repeats every six slots (F0, F1, I1, I0 and two
// W), whose offsets along the ranks decide how long activations live.
#include <algorithm>
#include <array>

#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"
#include "parallel/schedule/generators/rank_writer.h"

namespace penstock::schedule {

namespace {

constexpr int period = 6;

// `slots` are those of F0, F1, I1, I0 of micro-batch 0 on rank r. W fills the free slots, oldest first.
void write_pattern(Schedule& schedule, int r, const std::array<int, 4>& slots) {
  const std::array<int, 4> stages{r, 2 * schedule.ranks - 1 - r, 2 * schedule.ranks - 1 - r, r};
  RankWriter rank(schedule, r);
  const int end = period * schedule.micro_batches + *std::max_element(slots.begin(), slots.end());
  for (int now = 0; now < end; ++now) {
    const auto due = std::find_if(slots.begin(), slots.end(), [&](int slot) {
      return now >= slot && (now - slot) % period == 0 && (now - slot) / period < schedule.micro_batches;
    });
    const auto which = static_cast<size_t>(due - slots.begin());
    if (due == slots.end()) {
      rank.backward_weight();
    } else if (which < 2) {
      rank.forward(stages[which]);
    } else {
      rank.backward_input(stages[which]);
    }
  }
  while (rank.weight_pending()) rank.backward_weight();
}

}  // namespace

Schedule v_half(const ScheduleOptions& options) {
  Schedule schedule = zig_zag("v-half", options);
  const int P = options.ranks;
  const int q = P % 2 == 0 ? 3 : 0;
  for (int r = 0; r < P; ++r) {
    write_pattern(schedule, r, {2 * r, 3 * P - r - 2, 3 * P + q + 2 * r - 1, 6 * P + q - r - 2});
  }
  return schedule;
}

Schedule v_min(const ScheduleOptions& options) {
  Schedule schedule = zig_zag("v-min", options);
  const int P = options.ranks;
  const int q = P % 3 == 0 ? 2 : 0;
  for (int r = 0; r < P; ++r) {
    write_pattern(schedule, r, {r, 2 * P - r - 1, 2 * P + q + r, 4 * P + q - r - 1});
  }
  return schedule;
}

}  // namespace penstock::schedule
