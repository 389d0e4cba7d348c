#pragma once

#include <functional>

#include <cuda_runtime_api.h>

namespace penstock::fake_cuda {

/// Runs `kernel` in the order of the stream.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> kernel);

}  // namespace penstock::fake_cuda
