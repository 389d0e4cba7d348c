#pragma once

#include <string>

#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_engine.h"

namespace penstock {

/// Whether both copies of the weights, and those of all replicas, are still the same, by a hash of every
/// parameter's master and moments: "", or what differs and on which ranks; the same on every rank. "" without
/// a look where there is one copy. Collective over the world. Waits for the compute stream.
std::string differing_copies(runtime::PipelineEngine& engine, transport::World& world);

}  // namespace penstock
