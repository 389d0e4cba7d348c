#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `diff` under `parent`: whether two checkpoints are bitwise the same, and if not, where they
/// differ. Exit code 0 for identical ones, 1 for others, as diff(1) has them.
CLI::App* add_checkpoint_diff(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
