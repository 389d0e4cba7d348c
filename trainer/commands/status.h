#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Adds `penstock status RUN`.
CLI::App* add_status(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
