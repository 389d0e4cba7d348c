#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trainer/job/watchdog_section.h"

namespace penstock::watchdog {

/// What a rank is at, as far as time limits are concerned.
enum class Phase : uint8_t { start_up, step, evaluation, check, save, load, rollback, rearrangement, ending };
inline constexpr int phases = 9;

/// "start-up", "step", …: as it is said and sent.
std::string_view name_of(Phase phase);
std::optional<Phase> phase_named(std::string_view name);

/// Seconds that a phase, or a part of the start, may take. `first`: of an arrangement of the run, with which
/// everything is tried for the first time. `median_step`: seconds of the last steps; 0: there is none yet.
double limit_of(Phase phase, bool first, double median_step, const WatchdogSection& limits);
/// The keys that it comes from: "watchdog.evaluation_s".
std::string_view key_of(Phase phase, bool first, double median_step, const WatchdogSection& limits);

}  // namespace penstock::watchdog
