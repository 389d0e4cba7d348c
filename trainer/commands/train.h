#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `train`. `command_line`: as the program was called, for environment.json.
CLI::App* add_train(CLI::App& parent, int& exit_code, std::vector<std::string> command_line);

}  // namespace penstock::commands
