#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/accounting/step_account.h"
#include "trainer/budget/background_controller.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/rearrangement.h"

namespace penstock {

/// The bubble budget of a run that trains: rank 0 shows its controller every step that was accounted for,
/// says what comes of it, and brings its verdicts, and what is asked by hand, into the vote; then all ranks
/// arrange the run otherwise. Last of the participants, so that everything else of a step is done before.
class BudgetSteering : public Participant {
 public:
  struct Setup {
    budget::ControllerOptions options;
    /// With which the run goes on: Controller::settled(), or options.first.
    budget::Arrangement running;
    nlohmann::json saved;  ///< what an earlier part of the run left; null: nothing
    /// What is asked by hand after a step (tests): by the steps completed. It is waited for.
    std::map<int64_t, std::string> acts;
  };
  /// `setup` is rank 0's, and ignored elsewhere. Everything outlives it.
  BudgetSteering(const RankContext& context, Rearrangement& rearrangement, Setup setup);
  ~BudgetSteering() override;

  /// Who has to know that the run is arranged otherwise, in order.
  void follow(std::vector<Participant*> followers) { followers_ = std::move(followers); }
  /// Rank 0: a finished step, as all replicas account for it.
  void observe(int64_t step, std::span<const accounting::StepAccount> replicas,
               const accounting::StepFigures& figures);
  /// Rank 0: somebody asks for an action after a step.
  void by_hand(const std::string& request, int64_t step);
  /// Rank 0: what a checkpoint keeps (Controller::saved()).
  nlohmann::json saved() const;

  void wish(const StepSummary& result, Decision& wishes) override;
  void act(const StepSummary& result, const Decision& decision) override;

 private:
  struct Leader;
  void say(const std::vector<budget::BudgetEvent>& events);
  /// Says what came up, and what is to be done about it.
  std::optional<budget::Arrangement> take_news(int64_t step, Decision& wishes);
  void alarm(const budget::BudgetEvent& event, Decision& wishes);
  void report_complaints();
  void conclude(const Rearrangement::Outcome& outcome, const budget::Arrangement& arrangement, int64_t step);

  RankContext context_;
  Rearrangement& rearrangement_;
  std::vector<Participant*> followers_;
  std::unique_ptr<Leader> leader_;
};

}  // namespace penstock
