#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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
  Job job;                         ///< the run's, resolved
  int64_t steps = 0;               ///< that were used
  std::string scaled;              ///< whose split was scaled: "as in PATH", or "by formula"
  std::vector<std::string> notes;  ///< for people: what was left out
};

/// data::DataError naming file and line, what was found and expected, for what the run wrote and is missing
/// or damaged; a last line that is incomplete is skipped, with a note. planner::ProfileError where the folder
/// is no run's.
RunProfile profile_from_run(const std::filesystem::path& run);

}  // namespace penstock
