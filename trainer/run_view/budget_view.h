#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "trainer/budget/limits.h"
#include "trainer/run_view/run_record.h"
#include "trainer/run_view/run_step.h"

namespace penstock::run_view {

/// A limit of the budget against the last steps.
struct LimitView {
  budget::Limit limit;
  std::optional<double> value;         ///< of the last window_steps steps; nothing: not known
  bool broken = false;                 ///< by `value`
  std::optional<int64_t> alarm_since;  ///< the first step of the windows that raised an alarm
};

/// An action that is being tried.
struct TrialView {
  std::string action;
  std::string arrangement;
  int64_t since_step = 0;
  std::optional<double> predicted;  ///< gain, a share
  std::optional<double> required;
};

/// How a budget stands: figures by the steps, alarms and trials by what the run said (events.jsonl), or,
/// where it has no budget of its own, by the limits' own rule.
class BudgetView {
 public:
  /// `told`: the run watches these limits itself, and its events say what is alarming.
  BudgetView(BubbleBudgetSection section, bool told);

  void add(const RunStep& step);
  void add(const RunEvent& event);
  /// The steps are read again from the beginning.
  void restart_steps();
  /// The same for events.
  void restart_events();

  std::vector<LimitView> limits() const;
  const std::optional<TrialView>& trial() const { return trial_; }
  const BubbleBudgetSection& section() const { return section_; }
  /// Of the last window_steps steps, where there are so many.
  std::optional<budget::Window> window() const;

 private:
  struct Standing {
    std::string limit;
    int64_t since_step = 0;
  };
  void raise(const std::string& limit, int64_t since_step);
  void clear(const std::string& limit);

  BubbleBudgetSection section_;
  bool told_;
  std::deque<budget::StepObservation> steps_;  ///< the last window_steps
  budget::WindowBuilder windows_;
  budget::AlarmWatch watch_;
  std::vector<Standing> alarms_;
  std::optional<TrialView> trial_;
  int64_t attempt_ = 0;  ///< of the last event
};

}  // namespace penstock::run_view
