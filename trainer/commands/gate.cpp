#include "trainer/commands/gate.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "trainer/budget/gate.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/budget_file.h"
#include "trainer/job/exit_code.h"
#include "trainer/job/read_job.h"
#include "trainer/job/text_file.h"
#include "trainer/run_folder.h"

namespace penstock::commands {
namespace {

struct Arguments {
  std::string run;
  std::string budget;
  bool json = false;
};

int judge(const Arguments& arguments) {
  const RunPaths paths(arguments.run);
  const auto own = [&] {
    const std::string file = paths.job().string();
    return parse_job_values(read_text_file(file, "job file"), file).bubble_budget;
  };
  const BubbleBudgetSection section = arguments.budget.empty() ? own() : read_budget(arguments.budget);
  const budget::GateResult result =
      budget::gate(budget::read_steps(paths.metrics().string()), section, arguments.run);
  const auto seen = [](const budget::GateRow& row) { return row.windows > 0; };
  if (std::none_of(result.rows.begin(), result.rows.end(), seen)) {
    throw data::DataError(
        fmt::format("{}: no window shows what the budget limits (amplification needs windows with an "
                    "evaluation or a save, "
                    "and others), so nothing was judged",
                    arguments.run));
  }
  if (arguments.json) {
    fmt::print("{}\n", budget::json_of(result).dump(2));
  } else {
    fmt::print("{}{}\n", budget::text_of(result),
               result.passed() ? "the run keeps its budget" : "the run breaks its budget");
  }
  return static_cast<int>(result.passed() ? ExitCode::finished : ExitCode::over_budget);
}

}  // namespace

CLI::App* add_gate(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      parent.add_subcommand("gate", "Judge a run by a bubble budget: exit 0 if it kept it, 7 if not");
  command->add_option("run", arguments->run, "the run's folder")->required()->type_name("RUN");
  command
      ->add_option("--budget", arguments->budget,
                   "a file with a section [bubble_budget]; without it: the run's own job.toml")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "one JSON object on standard output");
  command->footer(
      "A limit is broken by `patience` windows in a row, each of `window_steps` steps, after "
      "`warmup_steps`.\n"
      "Examples:\n"
      "  penstock gate runs/quickstart\n"
      "  penstock gate runs/nightly --budget release_budget.toml --json");
  command->callback([arguments, &exit_code] { exit_code = run_command([&] { return judge(*arguments); }); });
  return command;
}

}  // namespace penstock::commands
