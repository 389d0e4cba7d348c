#pragma once

#include "trainer/participant.h"
#include "trainer/rank_context.h"

namespace penstock {

/// Every numerics.replica_check_every_steps steps: whether all that hold a weight hold the same. A difference
/// stops the run, and nothing of it is saved.
class ReplicaCheck : public Participant {
 public:
  explicit ReplicaCheck(const RankContext& context);
  void wish(const StepSummary& result, Decision& wishes) override;

 private:
  RankContext context_;
};

}  // namespace penstock
