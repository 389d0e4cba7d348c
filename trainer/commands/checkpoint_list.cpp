#include "trainer/commands/checkpoint_list.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/commands/checkpoint_argument.h"
#include "trainer/commands/run_command.h"

namespace penstock::commands {
namespace {

void list(const std::string& run, bool as_json) {
  if (place_of(run) != CheckpointPlace::run) {
    throw checkpoint::CheckpointError(fmt::format(
        "{}: found a checkpoint, expected a run's folder (`penstock checkpoint verify` checks one)", run));
  }
  const std::vector<checkpoint::Listed> all = checkpoint::list(checkpoints_of(run), checkpoint::Depth::quick);
  if (as_json) {
    nlohmann::ordered_json checkpoints = nlohmann::ordered_json::array();
    for (const checkpoint::Listed& one : all)
      checkpoints.push_back({{"step", one.step}, {"path", one.path}, {"problem", one.problem}});
    const nlohmann::ordered_json object{{"schema", 1}, {"checkpoints", std::move(checkpoints)}};
    fmt::print("{}\n", object.dump(2));
    return;
  }
  for (const checkpoint::Listed& one : all)
    fmt::print("{}{}\n", one.path, one.problem.empty() ? "" : "  damaged: " + one.problem);
  if (all.empty()) fmt::print("no checkpoints in {}\n", checkpoints_of(run));
}

}  // namespace

CLI::App* add_checkpoint_list(CLI::App& parent, int& exit_code) {
  struct Arguments {
    std::string run;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand("list", "Show a run's checkpoints, and which are damaged");
  command->add_option("run", arguments->run, "the run's folder")->required()->type_name("RUN");
  command->add_flag("--json", arguments->json, "one JSON object on standard output");
  command->footer(
      "Checks sizes and heads of all files; `penstock checkpoint verify` reads every bit.\n"
      "Example:\n"
      "  penstock checkpoint list runs/quickstart");
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] {
      list(arguments->run, arguments->json);
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
