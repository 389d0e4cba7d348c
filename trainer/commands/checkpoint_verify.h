#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `verify` under `parent`: checks every bit of a checkpoint, or of all of a run. Exit code 4 for
/// damage.
CLI::App* add_checkpoint_verify(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
