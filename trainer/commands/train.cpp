#include "trainer/commands/train.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "trainer/commands/given_command.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/run_folder.h"
#include "trainer/stop_notice.h"
#include "trainer/stop_switch.h"
#include "trainer/training.h"

namespace penstock::commands {
namespace {

// One switch a process: signals belong to it, not to a rank.
int train_rank(const Job& job, const TrainOptions& options, transport::World& world) {
  const bool first_of_process = world.rank() == 0 || world.hosts().transport() != "inproc";
  std::optional<StopSwitch> stop;
  if (first_of_process) {
    const RunPaths paths(std::filesystem::path(job.run.folder) / job.run.name);
    const bool leads = world.rank() == 0;  // control files and the time limit are rank 0's to watch
    stop.emplace(leads ? paths.control() : std::filesystem::path(),
                 leads && job.run.max_wall_time > 0
                     ? std::optional<std::chrono::seconds>(std::chrono::seconds(job.run.max_wall_time))
                     : std::nullopt,
                 leads ? stop_notice([](const char* name) { return std::getenv(name); }) : StopNotice());
  }
  return static_cast<int>(train(job, options, world, stop ? &*stop : nullptr));
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
      "5 NaN or Inf, 6 a file cannot be written. Signals: USR1, TERM, INT save and stop; USR2 saves; a "
      "second INT leaves at "
      "once.\n"
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
