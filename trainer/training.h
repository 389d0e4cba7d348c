#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/transport/world.h"
#include "trainer/job/exit_code.h"
#include "trainer/job/job.h"
#include "trainer/rearrangement.h"
#include "trainer/step_moment.h"
#include "trainer/stop_switch.h"
#include "trainer/watchdog/progress.h"

namespace penstock {

/// How `penstock train` was called.
struct TrainOptions {
  std::vector<std::string> command_line;
  bool accept_changes = false;  ///< go on although the job differs from the checkpoint's
  // For tests: what control/act would say, by the steps completed; and what happens on the way.
  std::map<int64_t, std::string> acts;
  RearrangementHook at_rearrangement;
  StepHook at_step;
  ReadHook at_read;
};

/// One rank of a training: from the job's start, or from its newest checkpoint, until its end or until it is
/// stopped. What the job leaves open is planned first (trainer/job_plan.h). All ranks of the world call it
/// with the same job, whose parallel.pipeline · parallel.data is the world's size. `stop`: null on ranks
/// whose process has another rank that has it. `progress`: where the rank says how far it
/// is; null: nobody asks. Throws the errors of its parts; what a stopped run tells its
/// caller is the exit code, the same on every rank.
ExitCode train(Job asked, const TrainOptions& options, transport::World& world, StopSwitch* stop,
               watchdog::Progress* progress = nullptr);

}  // namespace penstock
