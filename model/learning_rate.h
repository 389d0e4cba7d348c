#pragma once

#include <cstdint>

#include "model/learning_rate_section.h"

namespace penstock {

/// The learning rate of optimizer step number `step`, counted from 1 (step 1 makes the first update). A pure
/// function, so that a resumed run goes on with the same rates. With w = warmup_steps, d = decay_steps, n =
/// run.steps:
///
///   warm-up, step ≤ w         max · step / w: the w-th step is the first at max
///   cosine, linear, step > w  u = (step − w) / (d − w), at most 1
///                             cosine: min + (max − min) · (1 + cos(π·u)) / 2
///                             linear: max − (max − min) · u
///                             step d, and every later one, runs at min
///   wsd, step > w             u = (step − (n − d)) / d, at least 0 and at most 1; max − (max − min) · u:
///                             max up to step n − d, then linear; step n (for d = 0 the one after it), and
///                             every later one, runs at min
///   constant, step > w        max
///
/// Where d ≤ w there is no decay to spread: the rate falls from max to min after step w (cosine, linear).
/// Evaluated in double. UsageError if step < 1.
double learning_rate(const LearningRateSection& section, int64_t run_steps, int64_t step);

}  // namespace penstock
