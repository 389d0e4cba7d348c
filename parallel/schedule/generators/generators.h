// One function a schedule, one file a function. Each trusts its options: the catalogue has checked them.
// Definitions use r for the rank, P, M, v as in ScheduleOptions, and F0 for "forward of chunk 0".
#pragma once

#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

Schedule gpipe(const ScheduleOptions& options);
Schedule one_forward_one_backward(const ScheduleOptions& options);
Schedule interleaved(const ScheduleOptions& options);
Schedule breadth_first(const ScheduleOptions& options);
Schedule zero_bubble_h1(const ScheduleOptions& options);
Schedule zero_bubble_h2(const ScheduleOptions& options);
Schedule zero_bubble_v(const ScheduleOptions& options);
Schedule v_half(const ScheduleOptions& options);
Schedule v_min(const ScheduleOptions& options);
Schedule dual_pipe(const ScheduleOptions& options);
Schedule dual_pipe_v(const ScheduleOptions& options);
Schedule chimera(const ScheduleOptions& options);
Schedule hanayo(const ScheduleOptions& options);
Schedule two_buffered_weights(const ScheduleOptions& options);

// The group that `interleaved` takes: the smallest g in [P, M] for which M mod g is 0 or at least P; 0 if
// there is none.
int interleaved_group(int ranks, int micro_batches);

}  // namespace penstock::schedule
