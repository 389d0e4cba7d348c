#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `job`: checks a job file and prints it with every default filled, or prints the keys'
/// documentation.
CLI::App* add_job(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
