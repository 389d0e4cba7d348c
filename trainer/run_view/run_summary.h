#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "trainer/run_view/run_state.h"

namespace penstock::run_view {

/// A run in a few lines, and as one JSON object: `penstock status`. Keys as in status.json and metrics.jsonl.
std::string summary_text(const RunState& run);
nlohmann::ordered_json summary_json(const RunState& run);

/// For batch scripts: whether the same command would go on with it. A run that has not begun needs one too;
/// one that somebody runs needs none.
bool needs_start(const RunState& run);

}  // namespace penstock::run_view
