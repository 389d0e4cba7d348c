#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/schedule/costs.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/rolling.h"
#include "trainer/budget/controller.h"
#include "trainer/commands/job_arguments.h"

namespace penstock::commands {

/// What is to be replayed: a job at the costs of its units, or a schedule at given costs.
struct ReplaySourceArguments {
  JobArguments job;
  std::string profile;  ///< a file's path; empty: the job's own profile, or formulas
  std::string schedule = "1f1b";
  int pipeline = 0;  ///< 0: not given
  int micro_batches = 0;
  int chunks = 0;
  int warmup_slack = 0;
  /// F,I,W[,transfer] in milliseconds, of a rank and micro-batch.
  std::string costs = "10,10,10,0";
  /// "F,I,W" in milliseconds of each stage, instead.
  std::vector<std::string> stages;
  double reduction = 0;  ///< milliseconds, as the rest
  double tied_sum = 0;
  double optimizer = 0;
};

struct ReplaySource {
  schedule::Program program;
  std::optional<schedule::RollingProgram> rolling;  ///< of an asynchronous schedule
  schedule::Costs costs;                            ///< seconds
  std::string title;                                ///< for people
  /// Of a job: from what the costs are made, so that it can be arranged otherwise.
  std::optional<budget::ControllerOptions> arranged;
};

/// The job's program at the costs of its units. JobError, planner::ProfileError and what planning throws.
ReplaySource job_source(const ReplaySourceArguments& arguments);
/// schedule::ScheduleError for what cannot be generated or replayed.
ReplaySource schedule_source(const ReplaySourceArguments& arguments);

}  // namespace penstock::commands
