#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// A stand-in for a profiler that NVTX finds in the program and hands its calls to.
namespace penstock::fake_cuda {

/// What a profiler saw between start and stop.
struct ProfiledRanges {
  std::vector<std::string> names;  ///< begun, in the domain "penstock"
  uint64_t ended = 0;
  bool ended_too_often = false;  ///< by a thread that had begun no more
  uint64_t unregistered = 0;     ///< begun with a name that is made at every call
};
void start_profiling();
ProfiledRanges stop_profiling();

}  // namespace penstock::fake_cuda
