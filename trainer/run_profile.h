#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "parallel/planner/profile.h"
#include "trainer/job/job.h"

namespace penstock {

/// A profile by what a run measured, finished or still going on.
///
/// A run's accounts know the F, I, W, R and optimizer time of every rank and step (metrics.jsonl, `ranks`),
/// not of single units. So what a rank's units cost by `profile.json` of the run (else by formula) is scaled,
/// action by action, to the median over the last 100 steps of the last attempt (without its first three), the
/// mean over the replicas. Units of a kind stand apart by rank. Only the job's micro-batch size is known.
/// `samples` is the number of steps, `spread` the quartiles' distance. Links, reduction and slow-down are the
/// earlier profile's.
struct RunProfile {
  planner::Profile profile;
  Job job;             ///< the run's, resolved
  int64_t steps = 0;   ///< that were used
  std::string scaled;  ///< whose split was scaled: "as in PATH", or "by formula"
};

/// ProfileError naming the file, and the line, for what is missing or cannot be read.
RunProfile profile_from_run(const std::filesystem::path& run);

}  // namespace penstock
