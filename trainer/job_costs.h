#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/transport/world.h"
#include "parallel/planner/profile.h"
#include "parallel/planner/unit_costs.h"
#include "parallel/runtime/formula_costs.h"
#include "trainer/backend.h"
#include "trainer/job/cluster.h"
#include "trainer/job/job.h"

namespace penstock {

/// What the job's units and links cost, and how that is known.
struct JobCosts {
  planner::ModelCosts model;  ///< bytes always those of the job on this build
  /// The same at other micro-batch sizes, to which a run may change.
  std::vector<planner::ModelCosts> other_sizes;
  planner::LinkCosts links;     ///< without a profile: transfers cost nothing
  std::vector<double> pace{1};  ///< as planner::Machine's
  bool measured = false;
  double threads_per_processor = 0;  ///< as in the profile; 0 without one
  std::string note;                  ///< for people, one line: which profile, or why there is none
};

/// Costs from a profile that somebody named, by its path: it may be of any device. ProfileError with what
/// differs where it is not of this job.
JobCosts costs_from_profile(const Job& job, Backend& backend, const std::string& path);
/// The same from a profile at hand, which is the job's own; `place` names it.
JobCosts costs_from_profile(const Job& job, Backend& backend, const planner::Profile& profile,
                            const std::string& place);

/// Costs by formula with a cluster's rates, and its links: of neighbours in a pipeline, and of a ring over
/// the replicas of a rank, 2(D−1)/D of the gradients each way in 2(D−1) messages.
JobCosts costs_on_cluster(const Job& job, Backend& backend, const Cluster& cluster);

/// How fast this device is now, by a large product and a pass over memory (0.2 s). Before arenas are made.
runtime::DeviceRates measured_rates(Backend& backend, DType compute);

/// Costs by formula. `rates`: measured_rates(), where seconds matter; nothing: nominal ones, the same on
/// every machine and at any time, so that a job is always cut the same way. `why`: what the note says about
/// it.
JobCosts costs_by_formula(const Job& job, Backend& backend, const std::optional<runtime::DeviceRates>& rates,
                          const std::string& why);

/// From `profile.json` of the job's run folder if it is there and fits, else by formula. Where there is a
/// world, rank 0 reads, decides, and tells the others: collective. ProfileError for a file that cannot be
/// read.
JobCosts job_costs(const Job& job, Backend& backend, transport::World* world);

}  // namespace penstock
