// Replays for tests.
#pragma once

#include <map>
#include <vector>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/measures.h"
#include "trainer/replay/replay_run.h"

namespace penstock::replay {

/// A run's steps, in order, as timelines.
inline std::vector<schedule::Timeline> replayed(const schedule::Program& program,
                                                const runtime::ReplayTimes& times,
                                                const ReplayOptions& options) {
  std::vector<schedule::Timeline> steps;
  run_replay(program, times, options,
             [&](uint64_t, std::span<const RankStep> ranks) { steps.push_back(timeline_of(ranks)); });
  return steps;
}

inline schedule::Costs even_costs(const schedule::Schedule& schedule, const schedule::StageCosts& stage) {
  schedule::Costs costs;
  costs.blocks.assign(static_cast<size_t>(schedule.blocks()), stage);
  return costs;
}

}  // namespace penstock::replay
