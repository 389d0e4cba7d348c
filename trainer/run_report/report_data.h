#pragma once

#include <filesystem>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trainer/run_view/liveness.h"

namespace penstock::run_report {

/// Steps are put together into at most so many points.
inline constexpr int64_t most_points = 800;
inline constexpr size_t most_events = 400;

/// All that a page says of one or two runs: docs/formats.md. data::DataError for a folder that is no run's,
/// and for files that are there and cannot be read.
nlohmann::ordered_json report_data(const std::vector<std::filesystem::path>& runs,
                                   const run_view::Surroundings& around);

}  // namespace penstock::run_report
