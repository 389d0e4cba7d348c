#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallel/planner/layout_scorer.h"
#include "parallel/planner/refined_costs.h"
#include "parallel/runtime/pipeline_plan.h"
#include "parallel/schedule/costs.h"
#include "trainer/accounting/rank_times.h"
#include "trainer/job/job.h"
#include "trainer/job_costs.h"

namespace penstock {

/// The job's unit costs, by its profile or by formula, which follow what the steps of a run measure
/// (planner::RefinedCosts, stage by stage).
class RunCosts {
 public:
  /// `plan` outlives it. `job`: decided, nothing open.
  RunCosts(const runtime::PipelinePlan& plan, const Job& job, JobCosts costs);

  /// Units lie otherwise from now on; each keeps what was measured of it. As for the constructor.
  void rearranged(const runtime::PipelinePlan& plan, const Job& job);

  /// A step of all ranks of a pipeline.
  void add(std::span<const accounting::RankTimes> ranks);
  int64_t steps() const { return refined_.steps(); }
  /// Of the run's stages, and its links as the job's costs have them.
  schedule::Costs costs() const;
  /// The job's costs with what the steps so far measured of its units, each on its rank.
  JobCosts measured() const;
  const JobCosts& given() const { return given_; }

  /// F + I + W of a micro-batch against what the job's costs said at first, as shares: +0.1 is 10 % longer.
  struct Difference {
    double all = 0;      ///< of all stages together
    int stage = 0;       ///< the one that differs most
    double largest = 0;  ///< of that one
  };
  Difference difference() const;

 private:
  /// Nothing is known yet of micro-batches of this size but what the job's costs say.
  void begin_with(int64_t micro_batch);
  planner::MeasuredRun measured(const accounting::RankTimes& times, int stage) const;
  schedule::Costs costs_of(const planner::ModelCosts& model) const;

  const runtime::PipelinePlan* plan_ = nullptr;
  JobCosts given_;
  planner::Layout layout_;
  std::vector<std::vector<int>> stages_by_rank_;
  planner::RefinedCosts refined_;
};

}  // namespace penstock
