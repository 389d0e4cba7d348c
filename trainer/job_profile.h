#pragma once

#include <string>
#include <vector>

#include "parallel/planner/profile.h"
#include "parallel/runtime/profiler.h"
#include "trainer/backend.h"
#include "trainer/job/job.h"

namespace penstock {

/// What a profile says of the job's model: the resolved [model] section, and whether documents are masked.
std::vector<planner::ModelKey> model_keys(const Job& job);

/// What a profile of the job is measured with. `micro_batches`: sizes, ascending. `modes`: ascending.
runtime::ProfileRequest profile_request(const Job& job, std::vector<int64_t> micro_batches,
                                        std::vector<planner::Recompute> modes);

/// Sizes that are measured unless somebody says otherwise: the job's, its half and its double, those of them
/// that divide a replica's sequences.
std::vector<int64_t> usual_micro_batches(const Job& job);

/// Fills what the measurement itself does not know: versions and the model.
void describe(planner::Profile& profile, const Job& job);

/// In words, everything in which the profile is not of the job: model (what changes no cost aside) and
/// precision; a line each. Empty: it fits.
std::string misfit(const planner::Profile& profile, const Job& job);
/// The same, and what differs from running the job on this device: threads, device.
std::string misfit(const planner::Profile& profile, const Job& job, const Device& device);

}  // namespace penstock
