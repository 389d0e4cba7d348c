#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// An option as shells and manuals need it.
struct OptionEntry {
  std::vector<std::string> names;  ///< "-h", "--help"
  std::string value;               ///< name of its value; empty: a flag
  std::string help;
};

/// A command with what may follow it.
struct CommandEntry {
  std::string path;  ///< "penstock checkpoint diff"
  std::string help;
  std::string footer;                    ///< examples
  std::vector<std::string> commands;     ///< names of its subcommands
  std::vector<OptionEntry> options;      ///< those with a dash
  std::vector<OptionEntry> positionals;  ///< "job" and the like
};

/// The program's commands, each before its subcommands.
std::vector<CommandEntry> command_tree(const CLI::App& program);

}  // namespace penstock::commands
