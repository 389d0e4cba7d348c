#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "parallel/runtime/executor.h"
#include "parallel/schedule/simulate.h"
#include "trainer/accounting/parts.h"

namespace penstock::accounting {

/// An instruction's times, seconds on one clock. `enqueued`: when its host put it on the stream (0: before
/// anything else). `middle`: where a B turns from I to W; 0 where nobody looked.
struct InstructionTimes {
  double enqueued = 0;
  double start = 0;
  double middle = 0;
  double end = 0;
};

struct Interval {
  double begin = 0;
  double end = 0;
};

/// What the host was doing.
struct HostInterval {
  Part part = Part::host;  ///< data, evaluation, checkpoint
  double begin = 0;
  double end = 0;
};

/// What a rank recorded of one step, on the clock of all ranks. The numbers of intervals and stages are fixed
/// once, so that a rank's record always has one size.
struct RankTimes {
  static constexpr size_t kept_intervals = 8;
  static constexpr size_t kept_standstills = 4;

  std::vector<InstructionTimes> instructions;  ///< as the program's list of the rank
  /// Of steps that overlap: the optimizer step of the step before. Its own may not have run yet, and is 0
  /// then.
  InstructionTimes optimizer_before;
  std::array<HostInterval, kept_intervals> host{};
  /// When the rank's process was not running; they do not overlap.
  std::array<Interval, kept_standstills> standstills{};
  /// The optimizer's agreement with all ranks: offered, and agreed on. 0: nobody looked.
  double offered = 0;
  double agreed = 0;
  /// By stage of the rank, ascending: seconds of recomputation inside the stage's first I.
  std::vector<double> recompute;
  double clock_error = 0;  ///< bound of what the clocks' alignment may be wrong by
  double memory_peak = 0;  ///< bytes, of the rank's process
};

/// The stamps of a finished step; `offset` is subtracted from all of them. `times` has as many instructions.
void take_stamps(std::span<const runtime::Stamp> stamps, double offset, std::vector<InstructionTimes>& times);
/// A simulated rank: everything was enqueued in time.
RankTimes times_of(const schedule::Timeline& timeline, size_t rank);

}  // namespace penstock::accounting
