#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/budget/actions/action.h"
#include "trainer/budget/cost_history.h"
#include "trainer/budget/limits.h"
#include "trainer/budget/window.h"

namespace penstock::budget {

/// What a controller is given.
struct ControllerOptions {
  BubbleBudgetSection budget;
  /// Ranks, replicas, links, memory limits; paces only where they are known beforehand.
  planner::Machine machine;
  /// The model's costs before anything was measured, by micro-batch size: [Arrangement::workload].
  std::vector<planner::Workload> workloads;
  Arrangement first;  ///< with which the run begins
  std::array<bool, planner::recompute_modes> recompute{true, true, true};
  planner::SearchBudget search{2e7, 2e4};
  // How sure a gain has to be before it is tried, and before it is kept; one-sided, with errors that know how
  // steps correlate.
  double apply_confidence = 0.99;
  double keep_confidence = 0.999;
};

/// Something that happened: an event for events.jsonl, and words for people (complete lines; may be empty).
struct BudgetEvent {
  std::string name;
  int64_t step = 0;
  nlohmann::json details;
  std::string text;
};

/// What is to be done before the next step.
struct Verdict {
  enum class Command : uint8_t { go_on, apply, roll_back };
  Command command = Command::go_on;
  std::optional<Arrangement> arrangement;  ///< to apply, or to go back to
  std::vector<BudgetEvent> events;
  /// Every limit, where the step completed a window.
  std::vector<AlarmWatch::Reading> readings;
};

/// Watches the budget, weighs actions, tries the best, and keeps what proves itself. A deterministic state
/// machine without clock, files or messages: the same steps give the same verdicts.
///
///     warm-up → watching ⇄ trial → kept, or rolled back → cool-down → watching
class Controller {
 public:
  /// The arrangement with which a run goes on that saved() this, where it is planned to begin with `first`.
  /// Nothing: it was changed, and begins anew.
  static std::optional<Arrangement> settled(const nlohmann::json& saved, const Arrangement& first);

  /// A trial that has not proved itself by then is rolled back.
  static constexpr int64_t longest_trial = 10;  ///< windows

  enum class State : uint8_t { warm_up, watching, trial, cool_down };

  /// schedule::ScheduleError or std::invalid_argument for options that do not fit together.
  explicit Controller(ControllerOptions options);
  ~Controller();

  /// A finished step of the arrangement that runs, in order of steps.
  Verdict observe(const StepObservation& step);
  /// The arrangement of the last verdict could not be had, and the one before still runs.
  std::vector<BudgetEvent> refused(int64_t step, const std::string& why);
  /// What somebody asks for by hand (by_hand.h), after step `step`: applied without a trial, and rested after
  /// like any action; a trial that is under way is over. What cannot be done is an event that says why.
  Verdict by_hand(const std::string& request, int64_t step);
  /// From now on an arrangement may take so much: as planner::Machine::memory_limit.
  void limit_memory(std::vector<int64_t> limit) { options_.machine.memory_limit = std::move(limit); }

  /// What a run goes on with after an interruption (saved.cpp): the arrangement that was chosen and
  /// those that were left. A trial that is under way ends with the run: what counts is what was before it.
  /// Measurement begins anew, as ranks may be on other machines. Null: nothing was ever changed.
  nlohmann::json saved() const;
  /// Takes over what was saved(), before the first step; false, and nothing changed, where it is of a run
  /// that began with another arrangement. nlohmann's exceptions for JSON of another form.
  bool restore(const nlohmann::json& saved);

  State state() const { return state_; }
  /// Steps until the next window is complete.
  int64_t missing() const;
  const Arrangement& running() const { return running_->arrangement(); }

 private:
  /// A candidate that was weighed.
  struct Weighed {
    BudgetAction action = BudgetAction::repartition;
    planner::Candidate candidate;
    Estimate gain;  ///< simulated, step by step of the segment
    double required = 0;
    bool taken = false;
  };
  struct Trial {
    BudgetAction action = BudgetAction::repartition;
    std::unique_ptr<SimulatedArrangement> old;
    // Costs of both arrangements' micro-batch sizes, as measured before the trial.
    std::unique_ptr<planner::UnitSums> old_sums;
    std::unique_ptr<planner::UnitSums> new_sums;
    // The costs before it, as levels (P), means over so many steps.
    std::vector<double> levels;
    size_t level_steps = 0;
    std::vector<double> new_work;  ///< (P): seconds of a step of the new one at pace 1
    Estimate old_ratio;            ///< measured ÷ simulated, of the old one
    double correlation = 0;
    size_t skip = 0;
    size_t steps = 0;
    int64_t windows = 0;
    int64_t first_step = 0;
    double predicted = 0;
    double required = 0;
    /// Of the steps before the trial: new ÷ old, both simulated.
    std::vector<double> before;
    // Of the trial's steps that are judged.
    std::vector<double> gains;       ///< 1 − measured ÷ what the old arrangement would have taken
    std::vector<double> new_ratios;  ///< measured ÷ simulated
  };
  /// What a trial says so far.
  struct Findings {
    Estimate own;  ///< by its own steps alone
    Estimate all;  ///< and by those before it, had they been of the new arrangement
  };
  /// An arrangement that was left, for a better one or because it failed.
  struct Left {
    Arrangement arrangement;
    int times = 0;
    // The costs with which it failed: (P) levels, means over so many steps. Empty: it never did.
    std::vector<double> failed_levels;
    size_t failed_steps = 0;
  };

  std::unique_ptr<SimulatedArrangement> simulated(const Arrangement& arrangement) const;
  void run(std::unique_ptr<SimulatedArrangement> arrangement);
  void report_limits(const Window& window, Verdict& verdict);
  bool anything_new() const;
  void consider(int64_t step, Verdict& verdict);
  /// Costs as they are measured now, and the machine at the ranks' present paces.
  std::vector<planner::Workload> workloads_now() const;
  planner::Machine machine_now(const std::vector<planner::Workload>& workloads) const;
  std::vector<Weighed> weigh(const planner::Machine& machine, const std::vector<planner::Workload>& workloads,
                             std::string& refusals);
  /// What a request by hand comes to. std::invalid_argument with the reason for nothing.
  Arrangement wanted(const std::string& request);
  const Left* left(const Arrangement& arrangement) const;
  /// May not be tried: it failed with the costs of now, or it is a micro-batch size that was left.
  bool barred(const Arrangement& arrangement) const;
  double required_gain(const Arrangement& arrangement) const;
  void start_trial(const Weighed& best, const std::vector<planner::Workload>& workloads, int64_t step,
                   Verdict& verdict);
  Findings findings() const;
  void judge_step(const StepObservation& step);
  void judge_window(int64_t step, Verdict& verdict);
  void end_trial(bool kept, const Findings& found, const std::string& why, int64_t step, Verdict& verdict);
  Left& leave(const Arrangement& arrangement);
  std::string intention() const;

  ControllerOptions options_;
  std::vector<std::unique_ptr<Action>> actions_;
  std::vector<planner::UnitSums> given_;  ///< sums of the given costs, by workload
  WindowBuilder windows_;
  AlarmWatch alarms_;
  CostHistory history_;
  State state_ = State::warm_up;
  int64_t warm_up_steps_ = 0;
  int64_t cooling_ = 0;  ///< windows
  std::unique_ptr<SimulatedArrangement> running_;
  std::vector<std::array<double, 3>> expected_;
  std::optional<Trial> trial_;
  std::optional<Arrangement> before_;    ///< what ran before the last verdict
  std::optional<Arrangement> previous_;  ///< to which `revert` goes back
  std::vector<Left> left_;
  // When it was last weighed that nothing helps.
  size_t fruitless_segment_ = 0;
  size_t fruitless_windows_ = 0;
  size_t fruitless_steps_ = 0;
  std::vector<double> fruitless_levels_;
};

}  // namespace penstock::budget
