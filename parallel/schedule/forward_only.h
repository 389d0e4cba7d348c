// Evaluation: the program that runs only forwards, of any number of micro-batches, on the stages where a
// schedule placed them.
#pragma once

#include "parallel/schedule/program.h"

namespace penstock::schedule {

// F of every stage of the first copy and every micro-batch; each rank prefers the latest stage that has its
// input. At most two buffers receive; a slot is free when its F is done. Micro-batches pass every stage in
// ascending order. Throws ScheduleError for fewer than one micro-batch.
Program forward_only(const Schedule& placement, int micro_batches);

}  // namespace penstock::schedule
