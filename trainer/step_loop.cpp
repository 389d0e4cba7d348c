#include "trainer/step_loop.h"

#include <utility>

namespace penstock {

void Decision::merge(const Decision& other) {
  evaluate |= other.evaluate;
  save |= other.save;
  saving |= other.saving;
  trace |= other.trace;
  finished |= other.finished;
  rollback |= other.rollback;
  unfit |= other.unfit;
  if (arrangement.empty()) arrangement = other.arrangement;
  if (other.stop && !stop) {
    code = other.code;
    reason = other.reason;
  }
  stop |= other.stop;
}

Decision StepLoop::run(int64_t first, int64_t last) const {
  Decision decision;
  Decision held;
  for (int64_t step = first; step < last; ++step) {
    const StepSummary result = train_step(step, held.pauses());
    Decision wishes = std::exchange(held, Decision());
    wishes.finished = result.step == last;
    for (Participant* participant : participants) {
      Decision wish = wishes;
      participant->wish(result, wish);
      wishes.merge(wish);
    }
    decision = vote(wishes);
    if (decision.pauses() && follows && follows()) {
      held = std::exchange(decision, Decision());
      decision.trace = std::exchange(held.trace, false);
      decision.saving = std::exchange(held.saving, false);
    }
    for (Participant* participant : participants) participant->act(result, decision);
    if (decision.rollback && !decision.stop) {
      const int64_t completed = roll_back(result, decision);
      for (Participant* participant : participants) participant->rolled_back(completed);
      step = completed - 1;
    }
    if (decision.stop) break;
  }
  return decision;
}

}  // namespace penstock
