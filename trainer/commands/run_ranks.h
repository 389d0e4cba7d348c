#pragma once

#include <functional>
#include <string>

#include "kernels/transport/world.h"
#include "trainer/commands/job_arguments.h"

namespace penstock::commands {

/// Reads the job and runs `body` once a rank of its world: in threads of this process, or as one of the
/// processes that a launcher started. `command`: what a user would put behind mpirun, for messages. Returns
/// the body's exit code, which is the same on every rank; of several processes those above rank 0 return 0,
/// and rank 0 returns a second after the others. Throws JobError, transport::LaunchError, and what a body
/// threw first.
int run_ranks(const JobArguments& arguments, const std::string& command,
              const std::function<int(const Job&, transport::World&)>& body);

}  // namespace penstock::commands
