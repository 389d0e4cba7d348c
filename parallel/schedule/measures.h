// What a simulated (or measured) step amounts to: busy and idle time by cause, the two bubble ratios, memory.
#pragma once

#include <vector>

#include "parallel/schedule/program.h"
#include "parallel/schedule/simulate.h"

namespace penstock::schedule {

// Parts of a rank's idle time.
struct Idle {
  double fill = 0;       // before its first action
  double wait = 0;       // until the peer had computed what the next action reads
  double transfer = 0;   // until that had arrived
  double buffer = 0;     // until a buffer of its own was free again
  double drain = 0;      // after its last action, until the last action of any rank
  double reduction = 0;  // after that, until reductions and the optimizer had ended on all ranks
};

struct RankMeasures {
  double busy = 0;
  double first_start = 0;
  double last_end = 0;
  // makespan − busy: all of `causes` but the reduction.
  double idle = 0;
  Idle causes;
  // Activations held at most, F to W, in full-rank units.
  double peak_slots = 0;
};

struct Measures {
  // From the first action on any rank to the last on any.
  double makespan = 0;
  // The same with what follows the actions.
  double step_time = 0;
  // 1 − mean busy time / makespan; and 1 − mean busy time / the longest of the ranks' own spans.
  double bubble_ratio = 0;
  double bubble_ratio_rank_span = 0;
  std::vector<RankMeasures> ranks;
};

Measures measure(const Program& program, const Timeline& timeline);

// The same for one step in the steady state of an asynchronous schedule (a window of at least four steps):
// fill and drain happen once a run, not once a step, so that the makespan is the distance of two steps.
Measures measure_steady_state(const Program& program, const Timeline& timeline);

// Bytes (or any unit) of one stage: of a slot from F to I or B, of one from I to W, and of a buffer.
struct MemorySizes {
  double slot = 1;
  double weight_slot = 1;
  double buffer = 0;
};

struct MemoryPoint {
  double time = 0;
  // From this time on, until the next point.
  double held = 0;
};

// A rank's memory over the step, as a step function; buffers are held throughout.
std::vector<MemoryPoint> memory_over_time(const Program& program, const Timeline& timeline, int rank,
                                          const MemorySizes& sizes);

}  // namespace penstock::schedule
