#pragma once

#include <string>

#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_engine.h"

namespace penstock {

/// What of the weights and moments is NaN or infinite, in words that name the first parameter and its rank;
/// "" where everything is finite. The same on every rank. Collective over the world; waits for the compute
/// stream. One pass over the memory, on the device.
std::string nonfinite_state(runtime::PipelineEngine& engine, transport::World& world);

}  // namespace penstock
