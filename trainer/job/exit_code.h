#pragma once

namespace penstock {

/// What the program's exit status means to a script or a scheduler.
enum class ExitCode : int {
  finished = 0,        ///< done, or already complete
  internal_error = 1,  ///< a bug of ours
  usage = 2,           ///< wrong arguments or a wrong job file
  data = 3,            ///< a data file is missing or damaged
  no_checkpoint = 4,   ///< no usable checkpoint where one is needed
  numerics = 5,        ///< NaN, Inf or a spike, and the policy says stop
  storage = 6,         ///< out of disk, and on_save_error = "stop"
  watchdog = 70,       ///< no progress within the configured time
  stopped = 75,        ///< stopped early on request, checkpoint saved: run again
  interrupted = 130,   ///< second interrupt: left at once
};

}  // namespace penstock
