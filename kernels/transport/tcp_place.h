#pragma once

#include <functional>
#include <string>

#include "kernels/transport/tcp_world.h"

namespace penstock::transport {

/// Which rank this process is and where rank 0 is found, as the environment of its start says; `address` and
/// `port` (0: none) of the job come first. `variable(name)`: as getenv.
///
///   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID   set by hand or by torchrun
///   srun's: rank 0 is on the step's first node; the port follows from the job's and the step's number
///   mpirun's: on one host; the port follows from the job's name
///
/// The first of these that names a rank is taken. LaunchError that says what is missing.
TcpPlace read_tcp_place(const std::function<const char*(const char*)>& variable, const std::string& address,
                        int port);

/// The first host of a Slurm node list: "node[03-07,9],other" is node03.
std::string first_host(const std::string& node_list);

}  // namespace penstock::transport
