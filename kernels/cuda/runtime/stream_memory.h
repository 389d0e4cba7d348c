#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

/// Stream memory operations, which signals are made of. They belong to the driver, not to the runtime, and
/// are asked for by name at their first use: a program that was built with CUDA starts on a machine without a
/// driver.
namespace penstock::cuda {

/// *cell = value once the work queued on the stream so far is done and seen by everybody. DeviceError if the
/// driver has no such operation.
cudaError_t queue_write(cudaStream_t stream, uint64_t* cell, uint64_t value);
/// What is queued after this starts once *cell is at least `value`.
cudaError_t queue_wait(cudaStream_t stream, const uint64_t* cell, uint64_t value);

}  // namespace penstock::cuda
