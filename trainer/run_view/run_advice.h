#pragma once

#include <filesystem>

#include "trainer/advice/advice.h"
#include "trainer/run_view/run_state.h"

namespace penstock::run_view {

/// What the last steps of the run say, all ranks together; at most RunState::kept_steps.
advice::Measured measured_by(const RunState& run);

/// Advice for a run by its folder: its last steps say what units cost (profile_from_run). What cannot be
/// predicted is said in Advice::unknown. data::DataError only for files that are there and cannot be read.
advice::Advice advise_run(const std::filesystem::path& folder);

}  // namespace penstock::run_view
