#pragma once

#include "kernels/transport/world.h"
#include "trainer/job/job.h"

namespace penstock {

/// Collective: throws transport::LaunchError on every rank where one was started with another job than rank
/// 0, with the first key that differs. A file that is old on one node, or an override given to some, would
/// train a model of several minds without a word.
void check_same_job(const Job& job, transport::World& world);

}  // namespace penstock
