#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trainer/budget/limits.h"

namespace penstock::budget {

/// A limit against a whole run.
struct GateRow {
  Limit limit;
  int64_t windows = 0;  ///< that have the figure
  int64_t broken = 0;
  int64_t most_in_row = 0;  ///< broken windows
  double mean = 0;          ///< of the windows
  double worst = 0;
  int64_t worst_step = 0;  ///< first step of the worst window
  Attribution worst_why;
  bool passed = true;
};

/// What a finished run is worth under a budget: a limit is broken by `patience` windows in a row (all of
/// them, where there are fewer), as it would have raised an alarm.
struct GateResult {
  std::vector<GateRow> rows;
  int64_t first_step = 0;  ///< that was judged
  int64_t last_step = 0;
  int64_t windows = 0;

  bool passed() const;
};

/// `steps` in order; those of the warm-up are not judged. data::DataError where they do not fill a window,
/// or the section sets no limit; `place` names the run in it.
GateResult gate(const std::vector<StepObservation>& steps, const BubbleBudgetSection& section,
                const std::string& place);

std::string text_of(const GateResult& result);
nlohmann::json json_of(const GateResult& result);

/// The steps of a run's metrics.jsonl; of a step that was run again the last time. data::DataError naming
/// file and line for what cannot be read, and for steps that were not accounted for.
std::vector<StepObservation> read_steps(const std::string& metrics_file);

}  // namespace penstock::budget
