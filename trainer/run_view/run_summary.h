#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "trainer/run_view/run_state.h"

namespace penstock::run_view {

/// A run in a few lines, and as one JSON object: `penstock status`. Keys as in status.json and metrics.jsonl.
std::string summary_text(const RunState& run);
nlohmann::ordered_json summary_json(const RunState& run);

/// For batch scripts: whether the same command goes on with it, because it was stopped, killed, or lost a
/// rank. Not one that never began, is complete, that somebody runs, or that its job, data or numbers failed.
bool needs_resume(const RunState& run);

}  // namespace penstock::run_view
