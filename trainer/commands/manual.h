#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "trainer/commands/command_tree.h"

namespace penstock::commands {

/// The manual page in man's own format (groff_man(7)); `version` stands in its footer.
std::string manual_page(const std::vector<CommandEntry>& tree, const std::string& version);

/// Adds `penstock man`, which prints it. `parent` is the program, with all its commands when this one runs.
CLI::App* add_man(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
