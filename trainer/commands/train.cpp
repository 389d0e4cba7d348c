#include "trainer/commands/train.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/device/error.h"
#include "trainer/commands/given_command.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/run_folder.h"
#include "trainer/stop_notice.h"
#include "trainer/stop_switch.h"
#include "trainer/training.h"
#include "trainer/watchdog/last_words.h"
#include "trainer/watchdog/watchdog.h"

namespace penstock::commands {
namespace {

// One switch a process: signals belong to it, not to a rank.
std::optional<StopSwitch> stop_switch(const Job& job, const RunPaths& paths, transport::World& world) {
  const bool leads = world.rank() == 0;  // control files and the time limit are rank 0's to watch
  if (!leads && world.hosts().transport() == "inproc") return std::nullopt;
  StopNotice notice = stop_notice([](const char* name) { return std::getenv(name); });
  if (!leads) notice.first = notice.impatience = "";
  return std::optional<StopSwitch>(
      std::in_place, leads ? paths.control() : std::filesystem::path(),
      leads && job.run.max_wall_time > 0
          ? std::optional<std::chrono::seconds>(std::chrono::seconds(job.run.max_wall_time))
          : std::nullopt,
      notice);
}

// A run that fails says so in its folder, if the folder was its own, and is nobody else's by now.
void record_failure(const RunPaths& paths, const watchdog::Progress::View& at, const std::exception& error) {
  if (at.attempt == 0) return;
  try {
    const RunFolder hold(paths.root());
    watchdog::write_outcome({paths.root(), at.attempt, 0, ""}, at.step,
                            {"end", static_cast<int>(exit_code_of(error)), error.what(), {}});
  } catch (const std::exception&) {
    return;  // the first error is the one that counts
  }
}

int train_rank(const Job& job, const TrainOptions& options, transport::World& world) {
  const RunPaths paths(std::filesystem::path(job.run.folder) / job.run.name);
  std::optional<StopSwitch> stop = stop_switch(job, paths, world);
  watchdog::Progress progress;
  watchdog::Watchdog watchdog(
      progress, world,
      {job.watchdog, job.comm.address, paths.root(),
       stop ? std::function<bool()>(&StopSwitch::signalled) : std::function<bool()>()});
  if (!watchdog.failure().empty() && world.rank() == 0) {
    std::fprintf(stderr, "penstock: warning: a rank that is lost may not be noticed: %s\n",
                 watchdog.failure().c_str());
  }
  try {
    return static_cast<int>(train(job, options, world, stop ? &*stop : nullptr, &progress));
  } catch (const std::exception& error) {
    watchdog.failed(static_cast<int>(exit_code_of(error)), error.what(),
                    dynamic_cast<const DeviceError*>(&error) != nullptr);
    if (world.rank() == 0) record_failure(paths, progress.view(), error);
    throw;
  }
}

}  // namespace

CLI::App* add_train(CLI::App& parent, int& exit_code, std::vector<std::string> command_line) {
  struct Arguments {
    JobArguments job;
    TrainOptions options;
  };
  auto arguments = std::make_shared<Arguments>();
  arguments->options.command_line = std::move(command_line);
  CLI::App* command =
      parent.add_subcommand("train", "Train the job's model, from its newest checkpoint if there is one");
  arguments->job.add_to(*command);
  command->add_flag(
      "--accept-changes", arguments->options.accept_changes,
      "go on although the job differs from the checkpoint's in more than steps, log, parallel, recompute");
  command->footer(
      "Exit status: 0 finished, 75 stopped on request with a checkpoint (run again), 2 job, 3 data, 4 "
      "checkpoint,\n"
      "5 NaN or Inf, 6 a file cannot be written, 70 no progress or a lost rank (watchdog). Signals: USR1, "
      "TERM, "
      "INT save\n"
      "and stop; USR2 saves; a second TERM or INT leaves at once (143, 130); QUIT shows where every thread "
      "is.\n"
      "To mpirun send USR1: it kills its ranks a second after TERM or INT (--mca "
      "odls_base_sigkill_timeout).\n"
      "Examples:\n"
      "  penstock train configs/quickstart.toml\n"
      "  penstock train job.toml --set run.steps=2000 --set 'run.name=\"longer\"'\n"
      "  touch runs/NAME/control/stop      # also: save, eval\n"
      "  echo 'schedule zbv' > runs/NAME/control/act                    # arranges a running job otherwise\n"
      "  penstock train job.toml --set parallel.pipeline=4              # four ranks as threads of one "
      "process\n"
      "  mpirun -n 4 penstock train job.toml --set parallel.pipeline=4  # four processes");
  command->callback([arguments, command, &exit_code] {
    exit_code = run_command([&] {
      return run_ranks(arguments->job, given_command(*command), [&](const Job& job, transport::World& world) {
        return train_rank(job, arguments->options, world);
      });
    });
  });
  return command;
}

}  // namespace penstock::commands
