#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Adds `penstock import HF_FOLDER -o RUN`.
CLI::App* add_import(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
