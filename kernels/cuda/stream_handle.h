#pragma once

struct CUstream_st;

namespace penstock {
class Stream;
}

namespace penstock::cuda {

/// CUDA's own stream (the same type as cudaStream_t), without its headers.
using StreamHandle = CUstream_st*;

/// The handle of a CUDA device's stream; UsageError for a stream of another device.
StreamHandle handle_of(Stream& stream);

}  // namespace penstock::cuda
