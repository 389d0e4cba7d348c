#pragma once

#include <chrono>
#include <string>

namespace penstock::report {

/// "2026-11-30T00:02:27.123Z": UTC, milliseconds.
std::string timestamp(std::chrono::system_clock::time_point at = std::chrono::system_clock::now());

}  // namespace penstock::report
