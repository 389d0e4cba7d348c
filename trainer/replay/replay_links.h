#pragma once

#include <cstdint>

#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/replay_times.h"
#include "parallel/schedule/program.h"

namespace penstock::replay {

/// Links of an inproc world whose messages, of `message_bytes`, take what the costs say, and what
/// disturbances add; the first message of each link belongs to step `first_step`. `times` and `program`
/// outlive the world.
transport::InprocOptions replay_links(const schedule::Program& program, const runtime::ReplayTimes& times,
                                      int64_t message_bytes, uint64_t first_step);

}  // namespace penstock::replay
