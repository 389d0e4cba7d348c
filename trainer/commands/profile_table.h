#pragma once

#include <cstdint>
#include <string>

#include "parallel/planner/profile.h"

namespace penstock::commands {

/// A profile for people: every kind of unit at one micro-batch size (or the nearest that was measured), in
/// milliseconds, and what a micro-batch holds; then links, reduction and slow-down.
std::string profile_table(const planner::Profile& profile, int64_t micro_batch);

}  // namespace penstock::commands
