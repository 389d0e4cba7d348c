#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/step_moment.h"

namespace penstock {

/// What one computation of a step came to, to the bit.
struct StepFingerprint {
  std::vector<double> losses;       ///< of every replica's micro-batches, the same on every rank
  double gradient_norm = 0;         ///< the same on every rank
  std::vector<uint64_t> gradients;  ///< hashes of this rank's units, in model order

  bool operator==(const StepFingerprint& other) const;
};

/// Every numerics.recompute_check_every_steps steps: the step is computed twice before its update. A machine
/// that computes right computes the same bits (contract C1); where it does not, a third computation tells
/// which of the two was wrong, the place is named, no weight is changed, and the run stops.
///
/// compute_first(), then the step as ever with its update held, then conclude(). All ranks alike.
class RecomputeCheck : public Participant {
 public:
  RecomputeCheck(const RankContext& context, StepBatches& batches, StepHook hook);

  /// Whether the step is checked that has `step` completed before it.
  bool due(int64_t step) const;
  void compute_first(const model::StepInputs& inputs);
  /// `second`: of finish_step(). Updates where both were equal, and says whether.
  bool conclude(const model::StepInputs& inputs, const model::StepResult& second);

  void wish(const StepSummary& result, Decision& wishes) override;

 private:
  /// Which of two computations was wrong, and where that showed first.
  struct Fault {
    std::string text;
    nlohmann::json details;
  };
  StepFingerprint compute(const model::StepInputs& inputs, int computation);
  StepFingerprint fingerprint(const model::StepResult& result);
  bool equal_everywhere(const StepFingerprint& a, const StepFingerprint& b);
  Fault place_of(const StepFingerprint& wrong, const StepFingerprint& right, int64_t step);
  Fault place_in_backward(const StepFingerprint& wrong, const StepFingerprint& right);

  RankContext context_;
  StepBatches& batches_;
  StepHook hook_;
  StepFingerprint first_;
  Fault fault_;  ///< of the last step; no text: none
};

}  // namespace penstock
