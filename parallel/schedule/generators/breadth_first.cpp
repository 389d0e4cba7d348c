// Breadth-first, or looped (arXiv 2211.05953): all micro-batches of a chunk before the next chunk.
#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/generators/placement.h"
#include "parallel/schedule/generators/rank_writer.h"

namespace penstock::schedule {

Schedule breadth_first(const ScheduleOptions& options) {
  Schedule schedule = looped("bfs", options);
  const int P = options.ranks;
  for (int r = 0; r < P; ++r) {
    RankWriter rank(schedule, r);
    for (int chunk = 0; chunk < options.chunks; ++chunk) {
      while (rank.forward_remains(chunk * P + r)) rank.forward(chunk * P + r);
    }
    for (int chunk = options.chunks - 1; chunk >= 0; --chunk) {
      while (rank.backward_remains(chunk * P + r)) rank.backward(chunk * P + r);
    }
  }
  return schedule;
}

}  // namespace penstock::schedule
