#include "trainer/commands/command_tree.h"

#include "trainer/commands/given_command.h"

namespace penstock::commands {
namespace {

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  if (option.get_positional()) entry.names.push_back(option.get_name(true, false));
  if (option.get_type_size() != 0) entry.value = option.get_type_name();
  entry.help = option.get_description();
  return entry;
}

void add(const CLI::App& command, std::vector<CommandEntry>& tree) {
  CommandEntry entry;
  entry.path = full_name(command);
  entry.help = command.get_description();
  entry.footer = command.get_footer();
  for (const CLI::Option* option : command.get_options()) {
    (option->get_positional() ? entry.positionals : entry.options).push_back(entry_of(*option));
  }
  const auto subcommands = command.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* each : subcommands) entry.commands.push_back(each->get_name());
  tree.push_back(entry);
  for (const CLI::App* each : subcommands) add(*each, tree);
}

}  // namespace

std::vector<CommandEntry> command_tree(const CLI::App& program) {
  std::vector<CommandEntry> tree;
  add(program, tree);
  return tree;
}

}  // namespace penstock::commands
