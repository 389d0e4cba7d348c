// PipeDream-2BW (arXiv 2006.09503): 1F1B that is never flushed. Gradients of a step's M micro-batches are
// summed, and update the weights while the next step's micro-batches are in flight: W(t+1) = W(t) −
// η·∇f(W(t−1)), so two versions of the weights are kept.
#include "parallel/schedule/generators/generators.h"

namespace penstock::schedule {

Schedule two_buffered_weights(const ScheduleOptions& options) {
  Schedule schedule = one_forward_one_backward(options);
  schedule.name = "2bw";
  schedule.asynchronous = true;
  return schedule;
}

}  // namespace penstock::schedule
