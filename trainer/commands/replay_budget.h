#pragma once

#include <iosfwd>

#include "parallel/runtime/replay_times.h"
#include "trainer/commands/replay.h"
#include "trainer/commands/replay_source.h"

namespace penstock::commands {

/// What goes wrong in a replay, and how times vary, as the arguments say. runtime::DisturbanceError.
runtime::ReplayTimes replay_times(const ReplayArguments& arguments, const schedule::Program& program,
                                  const schedule::Costs& costs);

/// Replays a job in virtual time under its bubble budget: alarms, decisions and trials are printed between
/// the steps, and the pipeline is laid out anew at step boundaries. The exit code.
int run_budget_replay(const ReplayArguments& arguments, const ReplaySource& source, std::ostream& out);

}  // namespace penstock::commands
