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
  /// Throws JobError.
  Job read() const;
};

}  // namespace penstock::commands
