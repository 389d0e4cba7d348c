#pragma once

#include <memory>

#include "kernels/transport/world.h"

namespace penstock::bench {

/// MPI's world where mpirun or srun started `command` as `ranks` processes; null where nothing did, and ranks
/// are threads. LaunchError if the number of processes is another one.
std::unique_ptr<transport::World> launched_world(const char* command, int ranks);

}  // namespace penstock::bench
