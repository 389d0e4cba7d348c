#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Adds `penstock report RUN [RUN2]`.
CLI::App* add_report(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
