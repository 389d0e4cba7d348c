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
#include "trainer/processor_share.h"
#include "trainer/run_costs.h"
#include "trainer/run_reports.h"

namespace penstock {

/// Rank 0: what the run's steps came to, beside what the simulator expects: first of the costs in the job's
/// profile, if it has one, then of unit costs that follow what the run's own steps measure, with what
/// messages, reductions and the optimizer took. What is compared are the latest steps, for means and medians
/// of a bounded number.
class RunAccount {
 public:
  static constexpr size_t warm_up_steps = 2;
  static constexpr size_t measured_steps = 8;
  static constexpr size_t refresh_steps = 64;
  static constexpr size_t compared_steps = 256;

  /// `plan` outlives it. `share`: of processors; where they are crowded a profile predicts nothing.
  RunAccount(const runtime::PipelinePlan& plan, const Job& job, JobCosts costs, const ProcessorShare& share);

  /// The steps to come are of another arrangement: units keep the costs that were measured, the rest begins
  /// anew.
  void rearranged(const runtime::PipelinePlan& plan, const Job& job);

  /// A step's times of our own pipeline, and the accounts of all pipelines.
  void add(std::span<const accounting::RankTimes> ranks, std::span<const accounting::StepAccount> accounts);
  /// `seconds`: the step as metrics state it.
  void add_step(double seconds, const accounting::StepFigures& figures);

  /// By the profile; of the run's own costs after warm_up_steps + measured_steps steps, and again every
  /// refresh_steps; until then null without a profile.
  const accounting::Prediction* prediction() const { return prediction_ ? &*prediction_ : nullptr; }
  /// Says once that the run's own costs are known, and by how much they differ from the job's: on the console
  /// and as the event "costs".
  void announce_costs(int64_t step, RunReports& reports);

  /// At the run's end: prediction and measurement side by side, on the console and as the event "prediction".
  /// Predicts from what there is if the run was short; says nothing if it ended within the warm-up.
  void conclude(int64_t step, const MemoryReport& memory, bool in_one_process, RunReports& reports);

  /// At the run's end: what the figures mean, and what to change first, with the gain that the planner
  /// predicts at the costs that were measured; on the console and as the event "advice". `job`: what ran,
  /// decided.
  void advise(int64_t step, const Job& job, RunReports& reports) const;

 private:
  struct Step {
    double seconds = 0;
    accounting::StepFigures figures;
    accounting::PartSeconds parts;  ///< mean over the ranks
  };
  accounting::PartSeconds mean_parts() const;
  nlohmann::json memory_of_ranks(const MemoryReport& memory, bool in_one_process) const;

  accounting::Prediction predict(const schedule::Costs& costs) const;
  void predict_by_own_costs();

  const runtime::PipelinePlan* plan_;
  RunCosts units_;
  accounting::MeasuredCosts costs_;
  ProcessorShare share_;
  std::optional<accounting::Prediction> planned_;  ///< by the profile
  std::optional<accounting::Prediction> prediction_;
  bool own_costs_ = false;  ///< in `prediction_`
  bool announced_ = false;
  std::vector<Step> steps_;  ///< a ring
  size_t seen_ = 0;
  accounting::PartSeconds latest_;
  std::vector<double> memory_peaks_;  ///< bytes, by pipeline rank of the first replica
};

}  // namespace penstock
