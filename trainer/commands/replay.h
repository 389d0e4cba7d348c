#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "trainer/commands/replay_source.h"

namespace penstock::commands {

struct ReplayArguments {
  ReplaySourceArguments source;
  uint64_t steps = 10;
  uint64_t first_step = 0;
  uint64_t every = 1;
  std::vector<std::string> disturbances;
  double action_sigma = 0;  ///< percent
  double rank_sigma = 0;    ///< percent
  double correlation = 0;
  uint64_t seed = 1;
  bool sleeping = false;
  int64_t message_bytes = 1;
  std::string stamps_path;
  std::string command;  ///< as it was given, for messages
  std::string budget;   ///< a file with [bubble_budget]; empty: nobody watches
};

void add_replay_options(CLI::App& command, ReplayArguments& arguments);
/// Replays and prints a line a step; what a launcher started prints on rank 0. Returns the exit code. Throws
/// schedule::ScheduleError, runtime::DisturbanceError or transport::LaunchError for what cannot be replayed.
int run_replay_command(const ReplayArguments& arguments, std::ostream& out);

/// Adds `penstock replay`.
CLI::App* add_replay(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
