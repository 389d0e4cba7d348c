#include "trainer/commands/completion.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trainer/commands/run_command.h"
#include "trainer/commands/shell_scripts.h"
#include "trainer/job/job_keys.h"

namespace penstock::commands {
namespace {

std::vector<std::string> job_keys() {
  Job job;
  std::vector<std::string> names;
  for (const SectionKeys& section : keys_of(job)) {
    for (const Key& key : section.keys) names.push_back(section.name + "." + key.name);
  }
  return names;
}

}  // namespace

CLI::App* add_completion(CLI::App& parent, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      parent.add_subcommand("completion", "Print a script that completes commands, options and keys");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n"
      "  source <(penstock completion bash)\n"
      "  penstock completion zsh > ~/.zfunc/_penstock\n"
      "  penstock completion fish > ~/.config/fish/completions/penstock.fish");
  command->callback([shell, &parent, &exit_code] {
    exit_code = run_command([&] {
      const std::vector<CommandEntry> tree = command_tree(parent);
      const auto script = *shell == "bash" ? bash_script : *shell == "zsh" ? zsh_script : fish_script;
      fmt::print("{}", script(tree, job_keys()));
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
