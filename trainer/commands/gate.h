#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Adds `penstock gate RUN`.
CLI::App* add_gate(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
