#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `list` under `parent`: the checkpoints of a run, and which of them are damaged.
CLI::App* add_checkpoint_list(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
