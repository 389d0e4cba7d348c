#include "model/learning_rate.h"

#include <cmath>
#include <numbers>
#include <string>

#include "kernels/device/error.h"

namespace penstock {
namespace {

// Share of a phase of `length` steps after `passed` of them, in [0, 1].
double share(int64_t passed, int64_t length) {
  if (passed <= 0) return 0.0;
  if (passed >= length) return 1.0;
  return static_cast<double>(passed) / static_cast<double>(length);
}

}  // namespace

double learning_rate(const LearningRateSection& section, int64_t run_steps, int64_t step) {
  if (step < 1) throw UsageError("learning_rate: steps count from 1, found " + std::to_string(step));
  const int64_t warmup = section.warmup_steps;
  if (step < warmup) return section.max * (static_cast<double>(step) / static_cast<double>(warmup));
  if (step == warmup) return section.max;
  const double fall = section.max - section.min;
  switch (section.decay_style) {
    case DecayStyle::constant:
      return section.max;
    case DecayStyle::cosine: {
      const double u = share(step - warmup, section.decay_steps - warmup);
      // The ends exactly: cos(pi) is -1, but min + 0 must not depend on how cos rounds.
      if (u >= 1.0) return section.min;
      return section.min + fall * (0.5 * (1.0 + std::cos(std::numbers::pi * u)));
    }
    case DecayStyle::linear: {
      const double u = share(step - warmup, section.decay_steps - warmup);
      return u >= 1.0 ? section.min : section.max - fall * u;
    }
    case DecayStyle::wsd: {
      const double u = share(step - (run_steps - section.decay_steps), section.decay_steps);
      return u >= 1.0 ? section.min : section.max - fall * u;
    }
  }
  return section.max;
}

}  // namespace penstock
