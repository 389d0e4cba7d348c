#include "trainer/commands/status.h"

#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/exit_code.h"
#include "trainer/run_view/run_state.h"
#include "trainer/run_view/run_summary.h"

namespace penstock::commands {
namespace {

struct Arguments {
  JobArguments of;  ///< a run's folder, or its job
  bool json = false;
  bool needs_resume = false;
};

// A batch script knows the job that it starts, not where that keeps its run.
std::string folder_of(const JobArguments& of) {
  if (std::filesystem::is_regular_file(of.file)) {
    const Job job = of.read(0);
    return std::filesystem::path(job.run.folder) / job.run.name;
  }
  if (!of.overrides.empty())
    throw CLI::ValidationError("--set changes a job file, and " + of.file + " is not one");
  return of.file;
}

int show(const Arguments& arguments) {
  const std::string folder = folder_of(arguments.of);
  run_view::RunState run(folder);
  run.refresh(run_view::Surroundings::here());
  if (arguments.needs_resume) return run_view::needs_resume(run) ? 0 : 1;
  if (run.liveness().life == run_view::Life::not_begun) {
    throw data::DataError(
        fmt::format("{}: found no status.json and no lock of a run; expected the folder of a run that "
                    "was started, as runs/NAME",
                    folder));
  }
  if (arguments.json) {
    fmt::print("{}\n",
               run_view::summary_json(run).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", run_view::summary_text(run));
  }
  return static_cast<int>(ExitCode::finished);
}

}  // namespace

CLI::App* add_status(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      parent.add_subcommand("status", "How a run stands: step, loss, speed, bubble, budget, who runs it");
  command->add_option("run", arguments->of.file, "the run's folder, or its job file")
      ->required()
      ->type_name("RUN");
  arguments->of.add_overrides_to(*command);
  CLI::Option* json = command->add_flag("--json", arguments->json, "one JSON object on standard output");
  command
      ->add_flag("--needs-resume", arguments->needs_resume,
                 "print nothing: exit 0 where the same command goes on with the run (stopped, killed, lost a "
                 "rank), 1 where it is complete, somebody runs it, it never began, or it failed for good")
      ->excludes(json);
  command->footer(
      "Exit code 0, whatever the run's state is; 3 where there is no run.\n"
      "Examples:\n"
      "  penstock status runs/quickstart\n"
      "  penstock status runs/quickstart --json\n"
      "  penstock status job.toml --needs-resume && scontrol requeue $SLURM_JOB_ID");
  command->callback([arguments, &exit_code] { exit_code = run_command([&] { return show(*arguments); }); });
  return command;
}

}  // namespace penstock::commands
