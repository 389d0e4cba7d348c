#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_engine.h"

namespace penstock {

/// A weight, or what the optimizer knows of it, that is not the same on all ranks that hold it.
struct CopyDifference {
  std::string unit;            ///< "mlp_3"
  std::string what;            ///< "layers.3.mlp.up.weight", or its ".moment1", ".moment2", ".compute"
  std::vector<int> agreeing;   ///< most of those that hold it (of as many on both sides those with the lowest
                               ///< rank), ascending
  std::vector<int> differing;  ///< the others
  int64_t element = 0;         ///< the first in which differing.front() differs from agreeing.front()
  std::string text;            ///< all of it in words, and what to do
};

/// Compares what replicas, both copies of the weights, and the two holders of a tied weight hold: master,
/// moments and compute copy, by hashes. Nothing where all are equal; the same on every rank. Reads all of it
/// on the host; what is sent is 16 bytes a unit, unless something differs. Collective over the world; waits
/// for the compute stream.
std::optional<CopyDifference> differing_copies(runtime::PipelineEngine& engine, transport::World& world);

}  // namespace penstock
