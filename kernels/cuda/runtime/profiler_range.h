#pragma once

#include <memory>
#include <string>

#include "kernels/device/profiler_range.h"

namespace penstock::cuda {

/// An NVTX range in the domain "penstock". Its name is registered once, with whatever profiler is attached.
std::unique_ptr<ProfilerRange> make_profiler_range(const std::string& name);

}  // namespace penstock::cuda
