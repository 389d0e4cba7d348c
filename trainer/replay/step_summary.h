#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/accounting/accountant.h"
#include "trainer/replay/replay_run.h"

namespace penstock::replay {

/// A replayed step, accounted for.
struct StepSummary {
  uint64_t step = 0;
  double seconds = 0;  ///< from the first rank's begin to the last one's end
  accounting::StepFigures figures;
  accounting::PartSeconds parts;  ///< mean over the ranks
  /// Whom the ranks waited for most, and how long together; −1: nobody.
  int root_rank = -1;
  double root_seconds = 0;
};

/// What accounting reads of a replayed rank.
accounting::RankTimes rank_times(const RankStep& rank);

/// Accounts for the steps of a replay, one after another.
class ReplayAccount {
 public:
  /// `rolling`: of an asynchronous program; all its steps are added.
  explicit ReplayAccount(const schedule::Program& program, const schedule::RollingProgram* rolling = nullptr)
      : overlapping_(rolling != nullptr),
        accountant_(rolling == nullptr ? accounting::Accountant(program)
                                       : accounting::Accountant(program, *rolling)) {}
  StepSummary add(uint64_t step, std::span<const RankStep> ranks);

 private:
  bool overlapping_;
  accounting::Accountant accountant_;
  std::vector<accounting::RankTimes> times_;
};

/// A line of a table, parts in percent of the step, and the table's head.
std::string summary_head();
std::string summary_line(const StepSummary& summary);

/// Lines "step,rank,index,instruction,lane,enqueued,start,end" of a step, without a head; seconds from the
/// run's start.
std::string stamp_lines(uint64_t step, std::span<const RankStep> ranks);
inline constexpr const char* stamp_head = "step,rank,index,instruction,lane,enqueued,start,end\n";

}  // namespace penstock::replay
