#pragma once

#include <string>
#include <vector>

#include "trainer/job/exit_code.h"
#include "trainer/job/job.h"

namespace penstock {

/// How `penstock train` was called.
struct TrainOptions {
  std::vector<std::string> command_line;
  bool accept_changes = false;  ///< go on although the job differs from the checkpoint's
};

/// Trains one rank from the job's start, or from its newest checkpoint, until its end or until it is stopped.
/// Throws the errors of its parts; what a stopped run tells its caller is the exit code.
ExitCode train(Job job, const TrainOptions& options);

}  // namespace penstock
