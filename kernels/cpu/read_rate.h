#pragma once

namespace penstock::cpu {

/// Bytes a second that `threads` threads read together of memory far larger than the caches, each its own
/// part in order: the bound of what reads weights once. The best of a few passes, measured now, in about 0.2
/// s. DeviceError if the memory is not there.
double measure_read_rate(int threads);

}  // namespace penstock::cpu
