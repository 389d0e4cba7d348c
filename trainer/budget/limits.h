#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trainer/budget/window.h"
#include "trainer/job/bubble_budget_section.h"

namespace penstock::budget {

/// What a budget limits; names and order as in [bubble_budget].
enum class Figure : uint8_t { bubble_ratio, stage_imbalance, drain, step_p95, amplification };
/// "bubble_ratio", "stage_imbalance", "drain_ms", "step_p95_ms", "amplification": the keys.
const char* name_of(Figure figure);

/// A limit, in the unit of Window's member: shares, seconds, times.
struct Limit {
  Figure figure = Figure::bubble_ratio;
  double value = 0;
};
/// Those that the section sets.
std::vector<Limit> limits_of(const BubbleBudgetSection& section);
/// Nothing: the window has no such figure.
std::optional<double> figure_of(const Window& window, Figure figure);
/// "23.4 %", "17 ms", "1.8 x".
std::string text_of(Figure figure, double value);
/// As the key has it: milliseconds where the window has seconds.
double in_key_unit(Figure figure, double value);

/// A limit that was broken in every one of some windows.
struct Alarm {
  Limit limit;
  double found = 0;  ///< mean over these windows
  int64_t windows = 0;
  int64_t since_step = 0;  ///< the first step of the first of them
  int64_t last_step = 0;
  Attribution why;  ///< of the last of them
};

/// Where the time goes and who is behind it: "idle 25.1 % of the step: wait_backward 12.1 %, …" and
/// "waited for rank 3 (71 % of all waiting) …", a line each, indented.
std::string text_of(const Attribution& why);
nlohmann::json json_of(const Attribution& why);
/// For a terminal at night; `will`: what is done about it.
std::string text_of(const Alarm& alarm, const std::string& will);
nlohmann::json json_of(const Alarm& alarm);

/// Which limits windows break. A limit is alarming from when `patience` windows in a row broke it until as
/// many in a row kept it.
class AlarmWatch {
 public:
  AlarmWatch(std::vector<Limit> limits, int64_t patience);

  struct News {
    std::vector<Alarm> raised;
    std::vector<Limit> cleared;
  };
  News add(const Window& window);
  /// Some limit is alarming, and the last window broke it.
  bool alarming() const;
  /// Each limit as the last window found it.
  struct Reading {
    Limit limit;
    std::optional<double> found;  ///< nothing: the window has no such figure
    bool alarming = false;
  };
  std::vector<Reading> readings() const;

 private:
  struct Watched {
    Limit limit;
    int64_t broken = 0;  ///< windows in a row
    int64_t kept = 0;
    double sum = 0;  ///< of the figure, over the broken windows
    int64_t since_step = 0;
    bool alarming = false;
    std::optional<double> last = std::nullopt;
  };

  std::vector<Watched> watched_;
  int64_t patience_;
};

}  // namespace penstock::budget
