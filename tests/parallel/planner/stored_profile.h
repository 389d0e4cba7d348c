#pragma once

#include <string>

#include "parallel/planner/machine.h"
#include "parallel/planner/profile.h"

namespace penstock::planner {

/// A profile that fixtures/make_profiles.py made.
inline Profile stored_profile(const std::string& name) {
  return read_profile_file(std::string(PENSTOCK_FIXTURES) + "/profiles/" + name + ".json");
}

inline Machine stored_machine(const Profile& profile, int ranks) {
  Machine machine;
  machine.ranks = ranks;
  machine.links = link_costs(profile, ranks);
  machine.pace = rank_paces(profile, ranks);
  return machine;
}

}  // namespace penstock::planner
