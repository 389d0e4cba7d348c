#include "trainer/commands/given_command.h"

#include <cctype>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace penstock::commands {

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "_./:,+-=@%";
  bool bare = !word.empty();
  for (const char c : word)
    bare =
        bare && (std::isalnum(static_cast<unsigned char>(c)) != 0 || plain.find(c) != std::string_view::npos);
  if (bare) return word;
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'')
      text += "'\\''";
    else
      text += c;
  }
  return text + "'";
}

std::string full_name(const CLI::App& command) {
  if (command.get_parent() == nullptr) return command.get_name();
  return full_name(*command.get_parent()) + " " + command.get_name();
}

std::string given_command(const CLI::App& command) {
  std::string text = full_name(command);
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_lnames().empty() ? "" : "--" + option->get_lnames().front();
    if (option->get_expected_min() == 0) {  // a flag
      text += " " + name;
    } else if (option->get_delimiter() != '\0') {
      text += fmt::format(" {} {}", name, shell_word(fmt::format("{}", fmt::join(option->results(), ","))));
    } else {
      for (const std::string& value : option->results())
        text += fmt::format("{}{} {}", name.empty() ? "" : " ", name, shell_word(value));
    }
  }
  return text;
}

}  // namespace penstock::commands
