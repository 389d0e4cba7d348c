#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"

namespace penstock::cuda {

/// *nanoseconds = the GPU's clock when the stream comes here; never 0. Pinned memory of the host.
void write_time(StreamHandle stream, uint64_t* nanoseconds);

}  // namespace penstock::cuda
