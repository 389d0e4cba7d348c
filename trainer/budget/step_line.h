#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "trainer/budget/observation.h"

namespace penstock::budget {

/// The parts of an object of a step's `ranks` in metrics.jsonl, which leaves zeros out. Seconds.
accounting::PartSeconds parts_of_row(const nlohmann::json& row);

/// A line of metrics.jsonl as the budget sees it. data::DataError, naming `place`, for a step that was not
/// accounted for.
StepObservation observation_of_line(const nlohmann::json& line, std::string place);

}  // namespace penstock::budget
