// DualPipe (DeepSeek-V3, arXiv 2412.19437): micro-batches enter at both ends, through two copies of the
// model. And DualPipeV, the same eight steps on one copy folded to a V.
#include <algorithm>

#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"
#include "parallel/schedule/generators/rank_writer.h"

namespace penstock::schedule {

namespace {

// The eight steps. s0 and s1 are the rank's stages, s0 the one that micro-batches reach first. `outer` counts
// the ranks between this one and the innermost, where the directions meet; `inner` those from the outermost.
void write_steps(RankWriter& rank, int s0, int s1, int outer, int inner, int steady) {
  const auto split_1 = [&] { rank.backward_input(s1), rank.backward_weight(); };
  for (int i = 0; i < 2 * outer; ++i) rank.forward(s0);
  for (int i = 0; i < inner; ++i) rank.forward(s0), rank.forward(s1);
  for (int i = 0; i < outer; ++i) split_1(), rank.forward(s1);
  for (int i = 0; i < steady; ++i) rank.forward_and_backward(s0, s1), rank.forward_and_backward(s1, s0);
  for (int i = 0; i < outer; ++i) rank.backward(s1), rank.forward_and_backward(s1, s0);
  for (int i = 0; i < inner; ++i) {
    const bool second_half = i >= (inner + 1) / 2;
    for (const int stage : {s1, s0}) second_half ? rank.backward_input(stage) : rank.backward(stage);
  }
  for (int i = 0; i < outer; ++i) rank.backward_weight(), rank.backward_input(s0);
  while (rank.weight_pending()) rank.backward_weight();
}

}  // namespace

Schedule dual_pipe(const ScheduleOptions& options) {
  Schedule schedule = two_way("dualpipe", options);
  const int P = options.ranks;
  const int n = options.micro_batches / 2;
  for (int r = 0; r < P; ++r) {
    RankWriter rank(schedule, r);
    const int down = r;
    const int up = P + (P - 1 - r);
    rank.take(down, 0, n);
    rank.take(up, n, n);
    const int q = std::min(r, P - 1 - r);
    const bool first_half = r < P / 2;
    write_steps(rank, first_half ? down : up, first_half ? up : down, P / 2 - q - 1, q + 1, n - P + q + 1);
  }
  return schedule;
}

Schedule dual_pipe_v(const ScheduleOptions& options) {
  Schedule schedule = zig_zag("dualpipev", options);
  const int P = options.ranks;
  for (int r = 0; r < P; ++r) {
    RankWriter rank(schedule, r);
    write_steps(rank, r, 2 * P - 1 - r, P - r - 1, r + 1, options.micro_batches - 2 * P + r + 1);
  }
  return schedule;
}

}  // namespace penstock::schedule
