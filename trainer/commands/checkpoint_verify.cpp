#include "trainer/commands/checkpoint_verify.h"

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

using checkpoint::Damage;
using nlohmann::ordered_json;

std::vector<std::string> paths_in(const std::string& path) {
  if (place_of(path) == CheckpointPlace::checkpoint) return {path};
  std::vector<std::string> paths;
  for (const checkpoint::Listed& one : checkpoint::list(checkpoints_of(path), checkpoint::Depth::quick))
    paths.push_back(one.path);
  if (paths.empty()) {
    throw checkpoint::CheckpointError(
        fmt::format("{}: found no checkpoint, expected one or more to verify", checkpoints_of(path)));
  }
  return paths;
}

// How many are damaged.
size_t verify(const std::string& path, bool as_json) {
  ordered_json checkpoints = ordered_json::array();
  size_t damaged = 0;
  for (const std::string& one : paths_in(path)) {
    const std::vector<Damage> damages = checkpoint::verify(one, checkpoint::Depth::full);
    damaged += damages.empty() ? 0 : 1;
    if (as_json) {
      ordered_json problems = ordered_json::array();
      for (const Damage& damage : damages) problems.push_back(to_string(damage));
      checkpoints.push_back({{"path", one}, {"problems", std::move(problems)}});
      continue;
    }
    fmt::print("{}: {}\n", one, damages.empty() ? "whole" : "damaged");
    for (const Damage& damage : damages) fmt::print("  {}\n", to_string(damage));
  }
  if (as_json) {
    const ordered_json object{{"schema", 1}, {"damaged", damaged}, {"checkpoints", std::move(checkpoints)}};
    fmt::print("{}\n", object.dump(2));
  }
  return damaged;
}

}  // namespace

CLI::App* add_checkpoint_verify(CLI::App& parent, int& exit_code) {
  struct Arguments {
    std::string path;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand("verify", "Check every bit of a checkpoint, or of a run's");
  command->add_option("path", arguments->path, "a checkpoint's folder, or a run's: all of its checkpoints")
      ->required()
      ->type_name("PATH");
  command->add_flag("--json", arguments->json, "one JSON object on standard output");
  command->footer(
      "Exit code 0: whole, 4: damaged.\n"
      "Example:\n"
      "  penstock checkpoint verify runs/quickstart");
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] {
      return verify(arguments->path, arguments->json) == 0 ? 0 : checkpoint::CheckpointError::exit_code;
    });
  });
  return command;
}

}  // namespace penstock::commands
