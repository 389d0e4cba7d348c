#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Adds `penstock watch RUN`.
CLI::App* add_watch(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
