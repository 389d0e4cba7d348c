// A schedule taken through the whole chain for `penstock plan --schedule`: generated, validated, lowered,
// validated again, simulated, measured.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "parallel/schedule/measures.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/schedule.h"
#include "parallel/schedule/simulate.h"

namespace penstock::commands {

// Of a rank and micro-batch.
struct RankCosts {
  schedule::StageCosts stage;
  double transfer = 0;
};

// "F,I,W" or "F,I,W,transfer". Throws schedule::ScheduleError naming the number that is wrong.
RankCosts read_costs(const std::string& text);

struct ScheduleAnswer {
  schedule::Schedule schedule;
  schedule::Program program;
  schedule::Timeline timeline;
  // Of an asynchronous schedule: of one step in the steady state.
  schedule::Measures measures;
};

// Throws schedule::ScheduleError where the schedule is refused, cannot be read or is not valid.
ScheduleAnswer answer(const std::string& name, const schedule::ScheduleOptions& options,
                      const RankCosts& costs);

// The timeline to draw: the answer's own, or two steps of an asynchronous schedule, which show that no flush
// lies between them.
ScheduleAnswer picture(const ScheduleAnswer& made, const schedule::ScheduleOptions& options,
                       const RankCosts& costs);

nlohmann::json to_json(const ScheduleAnswer& made);

// Rounding may leave −1e−17 of a rank that never waits.
double without_rounding(double value);

}  // namespace penstock::commands
