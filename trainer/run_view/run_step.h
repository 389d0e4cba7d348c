#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "trainer/accounting/parts.h"
#include "trainer/budget/observation.h"

namespace penstock::run_view {

/// A rank's row of a step. Seconds.
struct RankRow {
  int rank = 0;
  int replica = 0;
  double accounted = 0;
  accounting::PartSeconds parts;
  int root_rank = -1;  ///< who was behind most of its waits; −1: nobody
  int root_link_to = -1;
  double root = 0;
};

/// A line of metrics.jsonl.
struct RunStep {
  int64_t attempt = 0;
  int64_t step = 0;
  int64_t tokens = 0;          ///< since the run began
  std::optional<double> loss;  ///< NaN: it was not finite
  std::optional<double> gradient_norm;
  std::optional<double> learning_rate;
  std::optional<double> seconds;  ///< step_ms
  std::optional<double> tokens_per_second;
  std::optional<double> matmul_share;
  std::optional<double> mfu;
  std::optional<double> memory_peak;  ///< bytes
  std::optional<double> bubble_ratio;
  std::optional<double> idle_ratio;
  std::optional<double> stage_imbalance;
  std::optional<double> predicted;  ///< seconds
  std::optional<int> slowest_stage;
  std::vector<RankRow> ranks;  ///< by replica and rank; empty: not accounted for
  /// Absent where the step was not accounted for.
  std::optional<budget::StepObservation> observation;

  /// What passed on the clock since the step before, pauses included: the longest accounted_ms, else step_ms.
  double passed() const;
};

/// Nothing: the line is damaged, or is no step.
std::optional<RunStep> parse_step(std::string_view line);

}  // namespace penstock::run_view
