#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Adds `penstock export RUN|CHECKPOINT --to hf -o FOLDER`.
CLI::App* add_export(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
