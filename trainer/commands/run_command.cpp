#include "trainer/commands/run_command.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "data/data_error.h"
#include "kernels/transport/launch.h"
#include "parallel/planner/cut.h"
#include "parallel/planner/plan.h"
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

// What is wrong with a job every rank finds, and rank 0 says it alone. A launcher ends all ranks as soon as
// one leaves with an error: the others let rank 0 speak first.
void print_error(ExitCode code, const std::string& text) {
  constexpr std::chrono::seconds head_start(1);
  const int rank = launched_rank();
  if (rank > 0) std::this_thread::sleep_for(head_start);
  if (rank == 0) {
    fmt::print(stderr, "{}", text);
  } else if (code != ExitCode::usage) {
    fmt::print(stderr, "rank {}: {}", rank, text);
  }
}

int report(ExitCode code, const char* what) {
  print_error(code, fmt::format("penstock: error: {}\n", what));
  return static_cast<int>(code);
}

}  // namespace

int run_command(const std::function<int()>& work) {
  try {
    return work();
  } catch (const JobError& error) {
    print_error(ExitCode::usage, error.what());
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
  } catch (const planner::PlanError& error) {
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
