// Which rank owns which stage: the four placements in use.
#pragma once

#include <string>

#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

// An empty schedule whose chunk c of rank r is stage c * P + r.
Schedule looped(const std::string& name, const ScheduleOptions& options);

// The stages run down and up the ranks: 0 … P−1, P−1 … 0, 0 … P−1, …; at a turning point no transfer is
// needed.
Schedule zig_zag(const std::string& name, const ScheduleOptions& options);

// Two copies: stage s on rank s, and stage P + s, block s of the second copy, on rank P − 1 − s.
Schedule two_way(const std::string& name, const ScheduleOptions& options);

}  // namespace penstock::schedule
