#include "trainer/commands/run_command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "data/data_error.h"
#include "kernels/transport/launch.h"
#include "parallel/planner/cut.h"
#include "parallel/planner/profile.h"
#include "parallel/runtime/disturbance.h"
#include "parallel/schedule/schedule.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/job/problems.h"
#include "trainer/memory_report.h"
#include "trainer/resume.h"
#include "trainer/run_folder.h"

namespace penstock::commands {
namespace {

int report(ExitCode code, const char* what) {
  if (!launched_as_follower()) fmt::print(stderr, "penstock: error: {}\n", what);
  return static_cast<int>(code);
}

}  // namespace

int run_command(const std::function<int()>& work) {
  try {
    return work();
  } catch (const JobError& error) {
    if (!launched_as_follower()) fmt::print(stderr, "{}", error.what());
    return static_cast<int>(ExitCode::usage);
  } catch (const ResumeError& error) {
    return report(ExitCode::usage, error.what());
  } catch (const MemoryLimitError& error) {
    return report(ExitCode::usage, error.what());
  } catch (const transport::LaunchError& error) {
    return report(ExitCode::usage, error.what());
  } catch (const schedule::ScheduleError& error) {
    return report(ExitCode::usage, error.what());
  } catch (const runtime::DisturbanceError& error) {
    return report(ExitCode::usage, error.what());
  } catch (const planner::PartitionError& error) {
    return report(ExitCode::usage, error.what());
  } catch (const planner::ProfileError& error) {
    return report(ExitCode::usage, error.what());
  } catch (const RunFolderError& error) {
    return report(ExitCode::usage, error.what());
  } catch (const data::DataError& error) {
    return report(ExitCode::data, error.what());
  } catch (const checkpoint::CheckpointError& error) {
    return report(ExitCode::no_checkpoint, error.what());
  } catch (const checkpoint::SaveError& error) {
    return report(ExitCode::storage, error.what());
  } catch (const std::exception& error) {
    return report(ExitCode::internal_error, error.what());
  }
}

int checked_output(int exit_code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  const std::string reason = errno == 0 ? "an earlier write failed" : std::strerror(errno);
  const int failed =
      report(ExitCode::storage,
             fmt::format("cannot write to standard output: {}; what is there is incomplete", reason).c_str());
  return exit_code == 0 ? failed : exit_code;
}

}  // namespace penstock::commands
