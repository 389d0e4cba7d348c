#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Accepts a whole number from `low` to `high`, and refuses all else in words. Every numeric option has one
/// of these: CLI11's own checks print bounds like 1e-09 as 0.000000, and its conversion turns −1 into
/// 18446744073709551615 where the target is unsigned.
CLI::Validator whole_number(int64_t low, int64_t high);

/// The same for any number; NaN is refused.
CLI::Validator real_number(double low, double high);

}  // namespace penstock::commands
