#pragma once

#include <functional>

struct CUstream_st;

namespace penstock::fake_cuda {

/// Runs `task` in the order of the stream (the same type as cudaStream_t; null: the default one).
void enqueue(CUstream_st* stream, std::function<void()> task);

}  // namespace penstock::fake_cuda
