#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// As a shell reads it back: between single quotes where it has to be.
std::string shell_word(const std::string& word);

/// "penstock checkpoint diff": the command with those above it.
std::string full_name(const CLI::App& command);

/// The command as it was given, for a shell: what a user would put behind mpirun. Every argument is there, in
/// the order of the command's help.
std::string given_command(const CLI::App& command);

}  // namespace penstock::commands
