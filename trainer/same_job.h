#pragma once

#include <string>

#include "kernels/transport/world.h"
#include "trainer/job/job.h"

namespace penstock {

/// Collective: throws transport::LaunchError on every rank where one was started with another job than rank
/// 0, with the first key that differs. A file that is old on one node, or an override given to some, would
/// train a model of several minds without a word.
void check_same_job(const Job& job, transport::World& world);

/// Collective likewise, of a program: two builds may differ in what they compute, and in what they send.
void check_same_build(const std::string& ours, transport::World& world);
/// "penstock 0.1.0 (GIT-ID, GNU 12.2.0, Release, native)".
std::string own_build();

}  // namespace penstock
