#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace penstock::run_report {

/// Steps of which a report shows a time line, and slices of all of them together.
inline constexpr size_t most_traces = 6;
inline constexpr size_t most_slices = 60000;

/// The traced steps of a run's trace/ folder, spread over the run where there are more than most_traces, as
/// compact lists (docs/formats.md); files that cannot be read are left out, with a line in `notes`.
nlohmann::json traces_of(const std::filesystem::path& folder, nlohmann::json& notes);

}  // namespace penstock::run_report
