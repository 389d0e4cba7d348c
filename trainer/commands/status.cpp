#include "trainer/commands/status.h"

#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/exit_code.h"
#include "trainer/run_view/run_state.h"
#include "trainer/run_view/run_summary.h"

namespace penstock::commands {
namespace {

struct Arguments {
  std::string run;
  bool json = false;
  bool needs_start = false;
};

int show(const Arguments& arguments) {
  run_view::RunState run(arguments.run);
  run.refresh(run_view::Surroundings::here());
  if (arguments.needs_start) return run_view::needs_start(run) ? 0 : 1;
  if (run.liveness().life == run_view::Life::not_begun) {
    throw data::DataError(
        fmt::format("{}: found no status.json and no lock of a run; expected the folder of a run that "
                    "was started, as runs/NAME",
                    arguments.run));
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
  command->add_option("run", arguments->run, "the run's folder")->required()->type_name("RUN");
  CLI::Option* json = command->add_flag("--json", arguments->json, "one JSON object on standard output");
  command
      ->add_flag(
          "--needs-start", arguments->needs_start,
          "print nothing: exit 0 where `train` has something to do, 1 where the run is complete or somebody "
          "runs it")
      ->excludes(json);
  command->footer(
      "Exit code 0, whatever the run's state is; 3 where there is no run.\n"
      "Examples:\n"
      "  penstock status runs/quickstart\n"
      "  penstock status runs/quickstart --json\n"
      "  while penstock status runs/nightly --needs-start; do srun penstock train nightly.toml; done");
  command->callback([arguments, &exit_code] { exit_code = run_command([&] { return show(*arguments); }); });
  return command;
}

}  // namespace penstock::commands
