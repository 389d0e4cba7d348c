// Interleaved 1F1B (arXiv 2104.04473): v chunks a rank, visited in groups of micro-batches, so that fill and
// drain cost 1/v of a rank's work.
#include <algorithm>
#include <vector>

#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"
#include "parallel/schedule/generators/rank_writer.h"

namespace penstock::schedule {

int interleaved_group(int ranks, int micro_batches) {
  for (int group = ranks; group <= micro_batches; ++group) {
    if (micro_batches % group == 0 || micro_batches % group >= ranks) return group;
  }
  return 0;
}

Schedule interleaved(const ScheduleOptions& options) {
  Schedule schedule = looped("interleaved", options);
  const int P = options.ranks;
  const int M = options.micro_batches;
  const int v = options.chunks;
  const int group = options.group;

  // The chunk of every virtual forward; the backwards visit them reversed.
  std::vector<int> chunks;
  for (int first = 0; first < M; first += group) {
    for (int chunk = 0; chunk < v; ++chunk) {
      chunks.insert(chunks.end(), static_cast<size_t>(std::min(group, M - first)), chunk);
    }
  }

  const int total = M * v;
  for (int r = 0; r < P; ++r) {
    RankWriter rank(schedule, r);
    const int warm_up = M == P ? total : std::min(total, 2 * (P - r - 1) + (v - 1) * group);
    for (int i = 0; i < total + warm_up; ++i) {
      if (i < total) rank.forward(chunks[static_cast<size_t>(i)] * P + r);
      if (i >= warm_up) rank.backward((v - 1 - chunks[static_cast<size_t>(i - warm_up)]) * P + r);
    }
  }
  return schedule;
}

}  // namespace penstock::schedule
