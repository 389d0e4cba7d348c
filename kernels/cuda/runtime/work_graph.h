#pragma once

#include <functional>
#include <memory>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/device/work_graph.h"

namespace penstock::cuda {

/// WorkGraphs::capture as a CUDA graph, which holds memory of the GPU outside the arenas.
std::unique_ptr<WorkGraph> capture_graph(CudaStream& stream, const std::function<void()>& queue);

}  // namespace penstock::cuda
