#include "trainer/commands/run_command.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "data/data_error.h"
#include "kernels/transport/launch.h"
#include "kernels/transport/nccl_world.h"
#include "parallel/planner/cut.h"
#include "parallel/planner/plan.h"
#include "parallel/planner/profile.h"
#include "parallel/runtime/disturbance.h"
#include "parallel/schedule/schedule.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/commands/print_error.h"
#include "trainer/job/problems.h"
#include "trainer/memory_limit.h"
#include "trainer/resume.h"
#include "trainer/run_folder.h"

namespace penstock::commands {
namespace {

template <class... Errors>
bool is_one_of(const std::exception& error) {
  return ((dynamic_cast<const Errors*>(&error) != nullptr) || ...);
}

}  // namespace

ExitCode exit_code_of(const std::exception& error) {
  if (is_one_of<transport::StartTimeout>(error)) return ExitCode::watchdog;
  if (is_one_of<JobError, ResumeError, MemoryLimitError, transport::LaunchError, schedule::ScheduleError,
                runtime::DisturbanceError, planner::PartitionError, planner::PlanError, planner::ProfileError,
                RunFolderError>(error))
    return ExitCode::usage;
  if (is_one_of<data::WriteError, checkpoint::SaveError>(error)) return ExitCode::storage;
  if (is_one_of<data::DataError>(error)) return ExitCode::data;
  if (is_one_of<checkpoint::CheckpointError>(error)) return ExitCode::no_checkpoint;
  return ExitCode::internal_error;
}

int run_command(const std::function<int()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    const ExitCode code = exit_code_of(error);
    const bool whole = is_one_of<JobError>(error);  // several lines, ready to print
    print_error(code, whole ? error.what() : fmt::format("penstock: error: {}\n", error.what()));
    if (transport::nccl_given_up()) {  // its threads still clean up, and might for ever
      std::fflush(nullptr);
      std::_Exit(static_cast<int>(code));
    }
    return static_cast<int>(code);
  }
}

int checked_output(int exit_code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  const std::string reason = errno == 0 ? "an earlier write failed" : std::strerror(errno);
  print_error(
      ExitCode::storage,
      fmt::format("penstock: error: cannot write to standard output: {}; what is there is incomplete\n",
                  reason));
  return exit_code == 0 ? static_cast<int>(ExitCode::storage) : exit_code;
}

}  // namespace penstock::commands
