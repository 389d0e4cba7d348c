#include "trainer/commands/checkpoint_prune.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/checkpoint/attempt_fence.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/commands/checkpoint_argument.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"

namespace penstock::commands {
namespace {

using checkpoint::Listed;

struct PruneArguments {
  std::string run;
  int keep_last = 2;
  int64_t keep_every_steps = 0;
  bool dry_run = false;
  bool json = false;
};

// A line for every checkpoint that is, or would be, deleted.
std::vector<std::string> prune(const PruneArguments& arguments, const std::string& checkpoints,
                               int64_t newest) {
  if (!arguments.dry_run) {
    const checkpoint::CheckpointWriter writer(checkpoints, checkpoint::newest_attempt(checkpoints));
    return writer.prune(newest, arguments.keep_last, arguments.keep_every_steps);
  }
  std::vector<std::string> lines;
  for (const Listed& old :
       checkpoint::surplus(checkpoints, newest, arguments.keep_last, arguments.keep_every_steps)) {
    lines.push_back(fmt::format("would delete {}", old.path));
  }
  return lines;
}

void prune(const PruneArguments& arguments) {
  if (place_of(arguments.run) != CheckpointPlace::run) {
    throw checkpoint::CheckpointError(
        fmt::format("{}: found a checkpoint, expected a run's folder", arguments.run));
  }
  const std::string checkpoints = checkpoints_of(arguments.run);
  const std::vector<Listed> before = checkpoint::list(checkpoints, checkpoint::Depth::quick);
  std::vector<std::string> lines;
  if (!before.empty()) lines = prune(arguments, checkpoints, before.back().step);
  const std::vector<Listed> after = checkpoint::list(checkpoints, checkpoint::Depth::quick);
  if (arguments.json) {
    nlohmann::ordered_json left = nlohmann::ordered_json::array();
    for (const Listed& one : after)
      left.push_back({{"step", one.step}, {"path", one.path}, {"problem", one.problem}});
    const nlohmann::ordered_json object{
        {"schema", 1}, {"dry_run", arguments.dry_run}, {"pruned", lines}, {"checkpoints", std::move(left)}};
    fmt::print("{}\n", object.dump(2));
    return;
  }
  for (const std::string& line : lines) fmt::print("{}\n", line);
  if (lines.empty()) fmt::print("nothing to delete in {}\n", checkpoints);
  for (const Listed& one : after) {
    if (!one.problem.empty()) fmt::print("{}: damaged, not deleted: {}\n", one.path, one.problem);
  }
}

}  // namespace

CLI::App* add_checkpoint_prune(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<PruneArguments>();
  CLI::App* command = parent.add_subcommand("prune", "Delete a run's older checkpoints");
  command->add_option("run", arguments->run, "the run's folder")->required()->type_name("RUN");
  command->add_option("--keep-last", arguments->keep_last, "newest whole checkpoints that stay")
      ->check(whole_number(1, std::numeric_limits<int>::max()))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--keep-every-steps", arguments->keep_every_steps,
                   "those whose step is a multiple of this stay too; 0: none more")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--dry-run", arguments->dry_run, "say what would be deleted, delete nothing");
  command->add_flag("--json", arguments->json, "one JSON object on standard output");
  command->footer(
      "Damaged checkpoints, and folders with files that the run did not write, stay. A run that goes on is "
      "not\n"
      "disturbed.\n"
      "Example:\n"
      "  penstock checkpoint prune runs/quickstart --keep-last 1 --dry-run");
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] {
      prune(*arguments);
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
