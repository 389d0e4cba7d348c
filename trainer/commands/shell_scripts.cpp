#include "trainer/commands/shell_scripts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/commands/given_command.h"

namespace penstock::commands {
namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::vector<std::string> option_names(const CommandEntry& command) {
  std::vector<std::string> names;
  for (const OptionEntry& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// Every command but the program itself, as patterns of `case`.
std::string command_patterns(const std::vector<CommandEntry>& tree) {
  std::vector<std::string> patterns;
  for (size_t i = 1; i < tree.size(); ++i) patterns.push_back(shell_word(tree[i].path));
  return fmt::format("{}", fmt::join(patterns, " | "));
}

// ['--set:overrides a key', …] of zsh's _describe, where a colon parts name and text.
std::string described(const std::string& name, const std::string& help) {
  std::string text = name + ":";
  for (const char c : first_line(help)) text += c == ':' ? std::string("\\:") : std::string(1, c);
  return shell_word(text);
}

std::string help_of(const std::vector<CommandEntry>& tree, const std::string& path) {
  for (const CommandEntry& each : tree) {
    if (each.path == path) return each.help;
  }
  return "";
}

std::string fish_text(const std::string& text) {
  std::string made = "'";
  for (const char c : first_line(text)) {
    if (c == '\'' || c == '\\') made += '\\';
    made += c;
  }
  return made + "'";
}

}  // namespace

std::string bash_script(const std::vector<CommandEntry>& tree, const std::vector<std::string>& keys) {
  std::string script = fmt::format(
      R"(# Completion of penstock for bash: source it, or put it where bash-completion looks.
_penstock() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} place=penstock word
  local options commands
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$place $word" in
      {}) place="$place $word" ;;
    esac
  done
  if [[ $previous == --set ]]; then
    compopt -o nospace
    mapfile -t COMPREPLY < <(compgen -S = -W {} -- "$current")
    return
  fi
  case $place in
)",
      command_patterns(tree), shell_word(fmt::format("{}", fmt::join(keys, " "))));
  for (const CommandEntry& command : tree) {
    script += fmt::format("    {}) options={} commands={} ;;\n", shell_word(command.path),
                          shell_word(fmt::format("{}", fmt::join(option_names(command), " "))),
                          shell_word(fmt::format("{}", fmt::join(command.commands, " "))));
  }
  return script + R"(  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  fi
}
complete -o default -F _penstock penstock
)";
}

std::string zsh_script(const std::vector<CommandEntry>& tree, const std::vector<std::string>& keys) {
  std::string script = fmt::format(
      R"(#compdef penstock
# Completion of penstock for zsh: source it, or put it as _penstock where fpath points.
_penstock() {{
  local place=penstock word
  local -a options commands keys
  for word in ${{words[2,CURRENT-1]}}; do
    case "$place $word" in
      {}) place="$place $word" ;;
    esac
  done
  if [[ ${{words[CURRENT-1]}} == --set ]]; then
    keys=({})
    compadd -S = -a keys
    return
  fi
  case $place in
)",
      command_patterns(tree), fmt::join(keys, " "));
  for (const CommandEntry& command : tree) {
    std::vector<std::string> options;
    for (const OptionEntry& option : command.options) {
      for (const std::string& name : option.names) options.push_back(described(name, option.help));
    }
    std::vector<std::string> commands;
    for (const std::string& each : command.commands)
      commands.push_back(described(each, help_of(tree, command.path + " " + each)));
    script += fmt::format("    {}) options=({}) commands=({}) ;;\n", shell_word(command.path),
                          fmt::join(options, " "), fmt::join(commands, " "));
  }
  return script + R"(  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o option options
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _penstock ]]; then
  _penstock "$@"
else
  compdef _penstock penstock
fi
)";
}

std::string fish_script(const std::vector<CommandEntry>& tree, const std::vector<std::string>& keys) {
  std::string script = fmt::format(
      R"(# Completion of penstock for fish: source it, or put it into ~/.config/fish/completions.
function __penstock_at
  set -l place penstock
  for word in (commandline -opc)[2..-1]
    switch "$place $word"
      case {}
        set place "$place $word"
    end
  end
  test "$place" = "$argv[1]"
end
)",
      [&] {
        std::vector<std::string> paths;
        for (size_t i = 1; i < tree.size(); ++i) paths.push_back(fish_text(tree[i].path));
        return fmt::format("{}", fmt::join(paths, " "));
      }());
  for (const CommandEntry& command : tree) {
    const std::string at = fmt::format("complete -c penstock -n \"__penstock_at '{}'\"", command.path);
    for (const std::string& each : command.commands) {
      script +=
          fmt::format("{} -f -a {} -d {}\n", at, each, fish_text(help_of(tree, command.path + " " + each)));
    }
    for (const OptionEntry& option : command.options) {
      std::string names;
      for (const std::string& name : option.names)
        names += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (names == " -l set")
        names += fmt::format(" -f -a {}", fish_text(fmt::format("{}=", fmt::join(keys, "= "))));
      script +=
          fmt::format("{}{}{} -d {}\n", at, names, option.value.empty() ? "" : " -r", fish_text(option.help));
    }
  }
  return script;
}

}  // namespace penstock::commands
