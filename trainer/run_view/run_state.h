#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/job/job.h"
#include "trainer/run_folder.h"
#include "trainer/run_view/budget_view.h"
#include "trainer/run_view/cause.h"
#include "trainer/run_view/line_tail.h"
#include "trainer/run_view/liveness.h"
#include "trainer/run_view/run_record.h"
#include "trainer/run_view/run_step.h"

namespace penstock::run_view {

/// A step of long ago.
struct PastStep {
  int64_t step = 0;
  double seconds = 0;  ///< without pauses, where they are known
  std::optional<double> loss;
  std::optional<double> bubble_ratio;
};

/// A rank over some steps. Mean seconds of a step.
struct RankMean {
  int rank = 0;
  int replica = 0;
  double step = 0;
  CauseSums causes;
  double busy = 0;       ///< F + I + W + R
  bool slowest = false;  ///< the busiest
};

/// A run as it stands, read from the files of its folder; refresh() reads what is new in them. Memory is
/// bounded, and of a long run only the end is read.
class RunState {
 public:
  static constexpr int64_t most_metrics_bytes = 16 << 20;  ///< read of metrics.jsonl at first
  static constexpr int64_t most_event_bytes = 2 << 20;
  static constexpr size_t kept_steps = 256;  ///< with their ranks
  static constexpr size_t kept_past = 8192;
  static constexpr size_t kept_events = 256;

  /// `budget`: instead of the run's own.
  explicit RunState(const std::filesystem::path& folder, std::optional<BubbleBudgetSection> budget = {});

  /// data::DataError for a file that is there and cannot be read. A folder or files that are missing are a
  /// run that has not begun.
  void refresh(const Surroundings& around);

  const RunPaths& paths() const { return paths_; }
  /// Its values only; nothing: there is no job.toml yet, or it cannot be understood (a version of tomorrow).
  const std::optional<Job>& job() const { return job_; }
  const std::optional<StatusRecord>& status() const { return status_; }
  const Liveness& liveness() const { return liveness_; }
  const std::deque<RunStep>& steps() const { return steps_; }
  const std::deque<PastStep>& past() const { return past_; }
  const std::deque<RunEvent>& events() const { return events_; }
  const std::optional<BudgetView>& budget() const { return budget_; }
  int64_t damaged_lines() const { return damaged_; }

  int64_t step() const;         ///< the last that is known to be done
  int64_t total_steps() const;  ///< 0: not known
  std::optional<double> loss() const;
  std::optional<int64_t> last_checkpoint() const;

  static constexpr size_t mean_steps = 20;
  /// Over the last mean_steps steps, pauses included. 0: no step.
  double step_seconds() const;
  std::optional<double> tokens_per_second() const;
  /// Bubble as a share of the time without pauses.
  std::optional<double> bubble_ratio() const;
  std::optional<double> idle_ratio() const;
  /// Nothing: ended, or not known.
  std::optional<double> seconds_left() const;
  /// By replica and rank; empty where ranks were not accounted for.
  std::vector<RankMean> rank_means() const;

 private:
  void add(RunStep step);
  void read_job();
  size_t mean_begin() const;

  RunPaths paths_;
  LineTail metrics_;
  LineTail event_lines_;
  bool own_budget_;
  std::optional<Job> job_;
  std::filesystem::file_time_type job_time_;
  std::optional<StatusRecord> status_;
  Liveness liveness_;
  std::deque<RunStep> steps_;
  std::deque<PastStep> past_;
  std::deque<RunEvent> events_;
  std::optional<BudgetView> budget_;
  int64_t damaged_ = 0;
};

}  // namespace penstock::run_view
