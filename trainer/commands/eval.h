#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `eval`: the loss of a checkpoint on the job's validation file.
CLI::App* add_eval(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
