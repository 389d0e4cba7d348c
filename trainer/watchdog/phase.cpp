#include "trainer/watchdog/phase.h"

#include <algorithm>
#include <array>

namespace penstock::watchdog {
namespace {

constexpr std::array<std::string_view, phases> names{"start-up", "step",     "evaluation",    "check", "save",
                                                     "load",     "rollback", "rearrangement", "ending"};

bool is_first(bool first, double median_step) {
  return first || median_step <= 0;
}

}  // namespace

std::string_view name_of(Phase phase) {
  return names[static_cast<size_t>(phase)];
}

std::optional<Phase> phase_named(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Phase>(found - names.begin());
}

double limit_of(Phase phase, bool first, double median_step, const WatchdogSection& limits) {
  switch (phase) {
    case Phase::start_up:
      return limits.start_s;
    case Phase::step:
      if (is_first(first, median_step)) return std::max(limits.first_step_s, limits.step_min_s);
      return std::max(limits.step_factor * median_step, limits.step_min_s);
    case Phase::evaluation:
    case Phase::check:
      return limits.evaluation_s;
    case Phase::save:
    case Phase::load:
    case Phase::rollback:
    case Phase::ending:
      return limits.checkpoint_s;
    case Phase::rearrangement:
      return limits.first_step_s;
  }
  return limits.start_s;
}

std::string_view key_of(Phase phase, bool first, double median_step, const WatchdogSection& limits) {
  switch (phase) {
    case Phase::start_up:
      return "watchdog.start_s";
    case Phase::step:
      if (is_first(first, median_step))
        return limits.first_step_s < limits.step_min_s ? "watchdog.step_min_s" : "watchdog.first_step_s";
      return limits.step_factor * median_step < limits.step_min_s
                 ? "watchdog.step_min_s"
                 : "watchdog.step_factor times the median step";
    case Phase::evaluation:
    case Phase::check:
      return "watchdog.evaluation_s";
    case Phase::save:
    case Phase::load:
    case Phase::rollback:
    case Phase::ending:
      return "watchdog.checkpoint_s";
    case Phase::rearrangement:
      return "watchdog.first_step_s";
  }
  return "";
}

}  // namespace penstock::watchdog
