#include "kernels/transport/mpi_world.h"

#include "kernels/device/error.h"

namespace penstock::transport {

bool mpi_built_in() {
  return false;
}

std::unique_ptr<World> make_mpi_world(const MpiOptions&) {
  throw DeviceError(
      "transport mpi is not built in: no MPI was found when this build was configured; install "
      "libopenmpi-dev, "
      "configure again and rebuild, or use comm.transport = \"inproc\"");
}

}  // namespace penstock::transport
