#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Prints what CLI11 could not parse, with the nearest known command or option on a typo, and returns the
/// exit status: 0 for --help and --version, else ExitCode::usage.
int report_usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace penstock::commands
