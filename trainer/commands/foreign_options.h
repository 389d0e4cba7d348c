#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// An option that has no meaning in the form of a command that was asked for, and what has.
struct ForeignOption {
  std::string name;     ///< "--pipeline"
  std::string instead;  ///< "--set parallel.pipeline={}", {} being what was given; empty: nothing
};

/// CLI::ValidationError (exit code usage) that lists all of `options` that were given, why none has a meaning
/// here, and what to give instead. Call it when the command's arguments are read (parse_complete_callback).
void refuse_given(const CLI::App& command, const std::string& why, const std::vector<ForeignOption>& options);

}  // namespace penstock::commands
