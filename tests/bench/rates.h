#pragma once

#include <cstdint>

/// What this machine can do, measured once a process: benchmarks print their rates as shares of these.
namespace penstock::bench {

/// Bytes read and written per second by memcpy of blocks larger than the caches, on `threads` threads.
double memory_rate(int threads);

/// Floating-point operations per second of fp32 products of 2048 × 2048 matrices (oneDNN) on `threads`
/// threads.
double matmul_rate(int threads);

}  // namespace penstock::bench
