#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Adds `penstock completion bash|zsh|fish`: prints a script that completes commands, options, the keys of
/// `--set`, and files. `parent` is the program, with all its commands when this one runs.
CLI::App* add_completion(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
