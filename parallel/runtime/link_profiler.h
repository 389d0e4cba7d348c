#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/transport/communicator.h"
#include "kernels/transport/world.h"
#include "parallel/planner/profile.h"

namespace penstock::runtime {

/// Latency and bandwidth of the edges between neighbours of a pipeline: p → p+1, p+1 → p, and where there are
/// more than two ranks between the last and the first. `bytes`: of the message that bandwidth is measured
/// with, at least 1. Collective over the world; every replica measures its own pipeline at the same time, and
/// the slowest counts. The same on all ranks.
///
///   latency          half of a message of 8 bytes there and back
///   bandwidth        bytes ÷ (seconds of a message while the same passes in the other direction − latency)
///   bandwidth_alone  the same with nothing but an 8-byte answer in the other direction
///
/// Edges of even ranks are measured together, then those of odd ones, so that no rank has two at a time.
/// Where a message takes hardly longer than the latency, a tenth of its time is taken for its passing.
std::vector<planner::MeasuredLink> measure_links(Device& device, transport::World& world,
                                                 transport::Communicator& pipeline, int64_t bytes,
                                                 int repetitions);

}  // namespace penstock::runtime
