#pragma once

#include <cstdint>
#include <vector>

#include "parallel/planner/unit_costs.h"

namespace penstock::planner {

/// What a plan is made for, beside the model.
struct Machine {
  int ranks = 1;     ///< P
  int replicas = 1;  ///< D
  LinkCosts links;
  /// Compute of a rank takes that many times as long as the unit costs say. One for all, or (P).
  std::vector<double> pace{1};
  /// Bytes of a rank that a plan may use. Empty: no limit; one for all, or (P).
  std::vector<int64_t> memory_limit;

  double pace_of(int rank) const { return pace.size() == 1 ? pace[0] : pace[static_cast<size_t>(rank)]; }
  int64_t limit_of(int rank) const {
    if (memory_limit.empty()) return std::numeric_limits<int64_t>::max();
    return memory_limit.size() == 1 ? memory_limit[0] : memory_limit[static_cast<size_t>(rank)];
  }
  const Edge& edge(int source, int destination) const {
    return links.edges.size() == 1 ? links.edges[0]
                                   : links.edges[static_cast<size_t>(source) * static_cast<size_t>(ranks) +
                                                 static_cast<size_t>(destination)];
  }
};

}  // namespace penstock::planner
