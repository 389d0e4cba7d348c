#pragma once

#include <cstdint>
#include <string>

#include "trainer/job/exit_code.h"

namespace penstock {

/// What one optimizer step did.
struct StepSummary {
  int64_t step = 0;          ///< steps completed, this one included: 1…run.steps
  double loss = 0;           ///< mean over the step's target tokens, before the update
  double gradient_norm = 0;  ///< over all parameters, before clipping
  double learning_rate = 0;
  int64_t tokens = 0;     ///< target tokens of this step, all replicas
  double seconds = 0;     ///< wall time from the first enqueue to the last result
  bool applied = true;    ///< false: NaN or Inf, no weight changed
  double loss_scale = 1;  ///< of its gradients on their way
};

/// What ranks want after a step; a decision is the union of all ranks' wishes.
struct Decision {
  bool evaluate = false;
  bool save = false;
  bool saving = false;  ///< some rank is still busy with a save that began earlier
  bool stop = false;
  bool trace = false;                  ///< of the next step
  bool finished = false;               ///< the last step is done; nothing was cut short
  ExitCode code = ExitCode::finished;  ///< when stopping
  std::string reason;                  ///< when stopping, of the rank that asked
  bool rollback = false;               ///< back to the newest checkpoint, and on without this step's samples
  bool unfit = false;                  ///< what the step left behind must not be saved
  std::string arrangement;  ///< rank 0 alone: in which to go on (budget::text_of); empty: as before

  /// The next step does not follow at once.
  bool pauses() const { return evaluate || save || stop || rollback || !arrangement.empty(); }

  /// Takes over every wish of `other`; the first one to stop gives code and reason.
  void merge(const Decision& other);
};

/// Something that takes part in the step loop: evaluation, checkpoints, numerics, stop switch, reports.
///
/// After every step each participant first states its wishes; they are put to one collective vote; then each
/// acts on the decision, which is the same on every rank, so that it may communicate.
class Participant {
 public:
  virtual ~Participant() = default;
  virtual void wish(const StepSummary& /*result*/, Decision& /*wishes*/) {}
  virtual void act(const StepSummary& /*result*/, const Decision& /*decision*/) {}
  /// The run goes on in another arrangement: RankContext has another engine.
  virtual void rearranged() {}
  /// The run goes on from `step` steps completed: those after it are done again.
  virtual void rolled_back(int64_t /*step*/) {}
};

}  // namespace penstock
