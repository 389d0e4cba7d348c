#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `prune` under `parent`: deletes the older checkpoints of a run.
CLI::App* add_checkpoint_prune(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
