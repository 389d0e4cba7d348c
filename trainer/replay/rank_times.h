#pragma once

#include "parallel/runtime/replay_times.h"
#include "trainer/accounting/rank_times.h"
#include "trainer/replay/replay_run.h"

namespace penstock::replay {

/// A replayed rank's step as accounting reads it: the pauses and the late data of its disturbances are what
/// its host was doing, and a host that is late with every action enqueues it when it starts.
accounting::RankTimes times_of(const RankStep& rank, const schedule::Program& program,
                               const runtime::ReplayTimes& times, uint64_t step, int number);

}  // namespace penstock::replay
