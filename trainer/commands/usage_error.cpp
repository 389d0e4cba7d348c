#include "trainer/commands/usage_error.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "parallel/schedule/nearest.h"
#include "trainer/commands/given_command.h"
#include "trainer/commands/print_error.h"
#include "trainer/job/exit_code.h"

namespace penstock::commands {
namespace {

// The command whose arguments were being read, the deepest one.
const CLI::App* active(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return at;
}

// What the word could have been: a sub-command, or an option of the command.
std::string suggestion(const CLI::App& command, const std::string& word) {
  std::vector<std::string> known;
  if (word.rfind("--", 0) == 0) {
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
  }
  return nearest(word.substr(0, word.find('=')), known);
}

}  // namespace

int report_usage_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const CLI::App* command = active(app);
  std::string text = error.what();
  for (const std::string& word : command->remaining()) {
    const std::string near = suggestion(*command, word);
    text = fmt::format("{} does not know \"{}\"", full_name(*command), word);
    if (!near.empty()) text += fmt::format("; did you mean \"{}\"?", near);
    break;
  }
  print_error(ExitCode::usage, fmt::format("penstock: error: {}\nRun `{} --help` for what it takes.\n", text,
                                           full_name(*command)));
  return static_cast<int>(ExitCode::usage);
}

}  // namespace penstock::commands
