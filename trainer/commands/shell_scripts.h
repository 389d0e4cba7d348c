#pragma once

#include <string>
#include <vector>

#include "trainer/commands/command_tree.h"

namespace penstock::commands {

/// The script that teaches a shell to complete these commands; `keys`: "section.key" of `--set`.
std::string bash_script(const std::vector<CommandEntry>& tree, const std::vector<std::string>& keys);
std::string zsh_script(const std::vector<CommandEntry>& tree, const std::vector<std::string>& keys);
std::string fish_script(const std::vector<CommandEntry>& tree, const std::vector<std::string>& keys);

}  // namespace penstock::commands
