#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `profile`: measures what the job's units, links and reductions cost, into profile.json.
CLI::App* add_profile(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
