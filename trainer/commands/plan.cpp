#include "trainer/commands/plan.h"

#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "trainer/commands/job_arguments.h"
#include "trainer/commands/plan_job.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/exit_code.h"

namespace penstock::commands {

CLI::App* add_plan(CLI::App& parent, int& exit_code) {
  struct Arguments {
    JobArguments job;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      parent.add_subcommand("plan", "What a job will use, to the byte; or what a schedule will idle");
  arguments->job.add_to(*command, false);
  command->add_flag("--json", arguments->json, "answer in JSON");
  command->footer(
      "Examples:\n"
      "  penstock plan configs/quickstart.toml");
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] {
      if (arguments->job.file.empty()) {
        fmt::print(stderr, "penstock plan: name a job file\n");
        return static_cast<int>(ExitCode::usage);
      }
      return run_plan_job(arguments->job, arguments->json);
    });
  });
  return command;
}

}  // namespace penstock::commands
