#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace penstock::report {

/// "2026-11-30T00:02:27.123Z": UTC, milliseconds.
std::string timestamp(std::chrono::system_clock::time_point at = std::chrono::system_clock::now());
/// Its reverse; the fraction may be left out. Nothing for any other text.
std::optional<std::chrono::system_clock::time_point> parse_timestamp(const std::string& text);

}  // namespace penstock::report
