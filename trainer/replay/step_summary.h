#pragma once

#include <span>
#include <string>

#include "parallel/schedule/measures.h"
#include "trainer/replay/replay_run.h"

namespace penstock::replay {

/// What a replayed step amounts to. Shares are of the step, averaged over the ranks.
struct StepSummary {
  uint64_t step = 0;
  double seconds = 0;     ///< from the first rank's begin to the last one's end
  double evaluation = 0;  ///< share of the step, ahead of the program; the next two likewise
  double checkpoint = 0;
  double data = 0;
  schedule::Measures measures;  ///< of the program
  schedule::Idle idle;          ///< shares; `buffer` holds a slow host too
};

StepSummary summarise(const schedule::Program& program, uint64_t step, std::span<const RankStep> ranks);

/// A line of a table, in percent, and the table's head.
std::string summary_head();
std::string summary_line(const StepSummary& summary);

/// Lines "step,rank,index,instruction,lane,enqueued,start,end" of a step, without a head; seconds from the
/// run's start.
std::string stamp_lines(uint64_t step, std::span<const RankStep> ranks);
inline constexpr const char* stamp_head = "step,rank,index,instruction,lane,enqueued,start,end\n";

}  // namespace penstock::replay
