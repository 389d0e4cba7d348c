#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "parallel/schedule/program.h"
#include "trainer/accounting/measured_costs.h"
#include "trainer/accounting/prediction.h"
#include "trainer/accounting/step_account.h"
#include "trainer/memory_report.h"
#include "trainer/run_reports.h"

namespace penstock {

/// Rank 0: what the run's steps came to, beside what the simulator expects of the costs that its own first
/// steps showed after the warm-up. What is compared are the latest steps, for means and medians of a bounded
/// number.
class RunAccount {
 public:
  static constexpr size_t warm_up_steps = 2;
  static constexpr size_t measured_steps = 8;
  static constexpr size_t compared_steps = 256;

  /// `program` outlives it.
  explicit RunAccount(const schedule::Program& program)
      : program_(program), costs_(program, measured_steps) {}

  /// A step's times of our own pipeline, and the accounts of all pipelines.
  void add(std::span<const accounting::RankTimes> ranks, std::span<const accounting::StepAccount> accounts);
  /// `seconds`: the step as metrics state it.
  void add_step(double seconds, const accounting::StepFigures& figures);

  /// Made after warm_up_steps + measured_steps steps; until then null.
  const accounting::Prediction* prediction() const { return prediction_ ? &*prediction_ : nullptr; }

  /// At the run's end: prediction and measurement side by side, on the console and as the event "prediction".
  /// Predicts from what there is if the run was short; says nothing if it ended within the warm-up.
  void conclude(int64_t step, const MemoryReport& memory, bool in_one_process, RunReports& reports);

 private:
  struct Step {
    double seconds = 0;
    accounting::StepFigures figures;
    accounting::PartSeconds parts;  ///< mean over the ranks
  };
  accounting::PartSeconds mean_parts() const;
  nlohmann::json memory_of_ranks(const MemoryReport& memory, bool in_one_process) const;

  const schedule::Program& program_;
  accounting::MeasuredCosts costs_;
  std::optional<accounting::Prediction> prediction_;
  std::vector<Step> steps_;  ///< a ring
  size_t seen_ = 0;
  accounting::PartSeconds latest_;
  std::vector<double> memory_peaks_;  ///< bytes, by pipeline rank of the first replica
};

}  // namespace penstock
