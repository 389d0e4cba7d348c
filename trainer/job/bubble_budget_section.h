#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

enum class BudgetAction { repartition, recompute, warmup_slack, schedule, chunks, micro_batch, conservative };
inline constexpr std::array<std::pair<std::string_view, BudgetAction>, 7> kBudgetActionNames{
    {{"repartition", BudgetAction::repartition},
     {"recompute", BudgetAction::recompute},
     {"warmup_slack", BudgetAction::warmup_slack},
     {"schedule", BudgetAction::schedule},
     {"chunks", BudgetAction::chunks},
     {"micro_batch", BudgetAction::micro_batch},
     {"conservative", BudgetAction::conservative}}};

/// [bubble_budget]: limits of idle time, and what may be done when one is broken.
struct BubbleBudgetSection {
  std::optional<double> bubble_ratio;
  std::optional<double> stage_imbalance;
  std::optional<double> drain_ms;
  std::optional<double> step_p95_ms;
  std::optional<double> amplification;
  int64_t window_steps = 20;
  int64_t patience = 3;
  int64_t warmup_steps = 20;
  int64_t cooldown_windows = 5;
  double min_gain = 0.02;
  std::vector<BudgetAction> actions;
  std::map<std::string, std::string> conservative;  ///< key of [parallel] → value
  std::string on_alarm;

  bool operator==(const BubbleBudgetSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("bubble_ratio", bubble_ratio).above(0).below(1).help("limit: bubble as a share of the step");
    v.key("stage_imbalance", stage_imbalance).above(0).below(1).help("limit: slowest busy time / mean - 1");
    v.key("drain_ms", drain_ms).above(0).help("limit: drain of a step, ms");
    v.key("step_p95_ms", step_p95_ms).above(0).help("limit: 95th percentile of the step time, ms");
    v.key("amplification", amplification)
        .above(0)
        .help("limit: bubble of steps with evaluation or save / window median");
    v.key("window_steps", window_steps).at_least(1).help("steps of one window");
    v.key("patience", patience).at_least(1).help("windows in a row that must break a limit");
    v.key("warmup_steps", warmup_steps).at_least(1).help("first steps that are not judged");
    v.key("cooldown_windows", cooldown_windows).at_least(1).help("windows of rest after an action");
    v.key("min_gain", min_gain)
        .above(0)
        .below(1)
        .help("of the step time; an action that gains less is undone");
    v.key("actions", actions).one_of(kBudgetActionNames).help("what the controller may do");
    v.key("conservative", conservative)
        .default_text("the job's own")
        .help("keys of [parallel] that the action `conservative` falls back to");
    v.key("on_alarm", on_alarm).none_if_empty().text_form("command").help("run at an alarm");
  }
};

}  // namespace penstock
