#pragma once

#include <cstddef>
#include <memory>

#include "kernels/transport/world.h"

namespace penstock::transport {

struct MpiOptions {
  /// Tests: every send is synchronous, so that the library buffers nothing.
  bool synchronous_sends = false;
  /// Longest piece handed to the library at once; MPI counts are 31 bits.
  size_t piece_bytes = size_t{1} << 30;
};

/// Whether this build has MPI (found by CMake when it was configured).
bool mpi_built_in();

/// Initialises MPI and joins its world: rank and size come from the library. Once a process. The world's end
/// finalises MPI, unless it was stopped. DeviceError if this build has no MPI, if the library does not allow
/// calls from several threads, or if it was initialised before.
///
/// Host memory and real clocks only. A waiting stream polls for at most 200 µs, then sleeps, longer the
/// longer nothing moves, at most 1 ms.
std::unique_ptr<World> make_mpi_world(const MpiOptions& options = {});

}  // namespace penstock::transport
