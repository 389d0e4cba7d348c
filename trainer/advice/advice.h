#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "parallel/planner/plan.h"

namespace penstock::advice {

/// Shares of idle time between which people ask different questions of it.
inline constexpr double leave_alone_below = 0.10;
inline constexpr double change_above = 0.15;

/// What a run measured. Shares are of all time, pauses included.
struct Measured {
  double step = 0;    ///< mean seconds of a step without evaluation and checkpoint
  double idle = 0;    ///< all that is not F, I, W, R or optimizer
  double bubble = 0;  ///< of the step without pauses
  double host = 0;    ///< data, enqueueing, starting
  double pause = 0;   ///< evaluation and checkpoint
  double reduction = 0;
  double threads_per_processor = 0;  ///< 0: not known
  int replicas = 1;
};

/// A change of the job, simulated with the costs that the run measured.
struct Change {
  std::string keys;         ///< as the job file would have them: "parallel.schedule = \"zbv\""
  double step = 0;          ///< seconds: simulated, times what the run takes longer than its own simulation
  double bubble = 0;        ///< simulated
  double gain = 0;          ///< share of the seconds a token that is saved
  int64_t peak_memory = 0;  ///< bytes of the fullest rank's arenas
  int64_t peak_memory_now = 0;
  bool changes_training = false;  ///< not the same losses
};

/// Something that no simulator knows, with what it would gain at least, where that can be said.
struct Hint {
  std::string text;
  std::optional<double> gain;
};

enum class Level : uint8_t { leave_alone, may_help, change_first };

/// What the figures of a run mean, and what to do about them.
struct Advice {
  Level level = Level::leave_alone;
  Measured measured;
  std::optional<double> simulated_step;  ///< seconds, of the run as it is
  std::vector<Change> changes;           ///< the largest gain first
  std::vector<Hint> hints;
  std::string unknown;  ///< why nothing could be simulated; empty: it was
};

Level level_of(double idle);

/// `running`: the run's arrangement with nothing left open, at the costs that it measured; nothing, with
/// `why` in a few words: not known. Changes that gain less than 1 % are left out, and below leave_alone_below
/// nothing is looked for.
Advice advise(const Measured& measured, const std::optional<planner::PlanRequest>& running,
              const std::string& why = "");

/// For people, a line each; the first one is the verdict.
std::vector<std::string> text_of(const Advice& advice);
nlohmann::json json_of(const Advice& advice);

}  // namespace penstock::advice
