#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `generate`: text from a checkpoint.
CLI::App* add_generate(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
