#pragma once

#include "trainer/evaluation.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"

namespace penstock {

/// Evaluates every evaluation.every_steps steps, after the last one, and when asked.
class Validation : public Participant {
 public:
  explicit Validation(const RankContext& context) : context_(context) {}
  /// Whether one is due behind `step` completed steps.
  static bool due(const Job& job, int64_t step);
  void wish(const StepSummary& result, Decision& wishes) override;
  void act(const StepSummary& result, const Decision& decision) override;

 private:
  RankContext context_;
};

}  // namespace penstock
