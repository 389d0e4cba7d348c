#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/job/bubble_budget_section.h"

namespace penstock::watch {

struct WatchOptions {
  std::filesystem::path folder;
  bool once = false;   ///< one frame
  bool plain = false;  ///< neither colours nor redrawing
  std::chrono::milliseconds every{1000};
  int columns = 0;                            ///< 0: the terminal's, or 100
  int rows = 0;                               ///< 0: the terminal's; without one all that there is
  std::optional<BubbleBudgetSection> budget;  ///< instead of the run's own
  /// What the figures of the run mean, a line each. May take a second: it is asked beside the panel, now and
  /// then.
  std::function<std::vector<std::string>(const std::filesystem::path&)> advice;
};

/// Shows a run until it is told to stop, or, where nothing can be redrawn, until the run has ended. The
/// program's exit status: 0, or 128 + the signal that ended it.
int watch(const WatchOptions& options);

}  // namespace penstock::watch
