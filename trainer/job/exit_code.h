#pragma once

namespace penstock {

/// What the program's exit status means to a script or a scheduler. trainer/commands/run_command.cpp says
/// which exception is which.
enum class ExitCode : int {
  finished = 0,        ///< done, or already complete
  internal_error = 1,  ///< a bug of ours, or a rank that was lost where no watchdog is
  usage = 2,           ///< wrong arguments, or a wrong job, cluster, profile or schedule file
  data = 3,            ///< token files, tokenizer, text or a run's records are missing or damaged
  no_checkpoint = 4,   ///< no usable checkpoint where one is needed
  numerics = 5,        ///< NaN, Inf or a spike, and the policy says stop
  storage = 6,         ///< a file cannot be written: no space, no such folder, no right to
  over_budget = 7,     ///< `gate`: the run breaks its bubble budget
  watchdog = 70,       ///< no progress within the configured time, or a rank that was lost
  stopped = 75,        ///< stopped early on request, checkpoint saved: run again
  interrupted = 130,   ///< second INT: left at once
  terminated = 143,    ///< second TERM: left at once
};

}  // namespace penstock
