#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "trainer/job/job.h"

namespace penstock::commands {

/// The job file and its overrides, as every command that reads a job takes them.
struct JobArguments {
  std::string file;
  std::vector<std::string> overrides;

  /// Adds the positional JOB and `--set`. `required`: the job file must be given.
  void add_to(CLI::App& command, bool required = true);
  /// `--set` alone.
  void add_overrides_to(CLI::App& command);
  /// `ranks`: of the run; 0: not known yet (Launch). Throws JobError.
  Job read(int64_t ranks = 1) const;
};

}  // namespace penstock::commands
