#pragma once

#include <span>

namespace penstock::cpu {

/// Bytes a second that `threads` threads read together of `memory`, each its own part in order: the bound of
/// what reads weights once. The best of a few passes, measured now. It is of these very pages: where they lie
/// can double it.
double measure_read_rate(int threads, std::span<const std::span<const float>> memory);

/// Of 256 MiB of memory of its own, in large pages as weights lie, in about 0.2 s. DeviceError if it is not
/// there.
double measure_read_rate(int threads);

}  // namespace penstock::cpu
