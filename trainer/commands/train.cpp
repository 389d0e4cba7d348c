#include "trainer/commands/train.h"

#include <memory>
#include <utility>

#include "trainer/commands/job_arguments.h"
#include "trainer/commands/run_command.h"
#include "trainer/training.h"

namespace penstock::commands {

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
      "5 NaN or Inf, 6 disk. Signals: USR1, TERM, INT save and stop; USR2 saves; a second INT leaves at "
      "once.\n"
      "Examples:\n"
      "  penstock train configs/quickstart.toml\n"
      "  penstock train job.toml --set run.steps=2000 --set 'run.name=\"longer\"'\n"
      "  touch runs/NAME/control/stop      # also: save, eval");
  command->callback([arguments, &exit_code] {
    exit_code =
        run_command([&] { return static_cast<int>(train(arguments->job.read(), arguments->options)); });
  });
  return command;
}

}  // namespace penstock::commands
