#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "parallel/planner/plan.h"

namespace penstock::commands {

/// What a step would be if one thing were different.
struct WhatIf {
  std::string what;
  std::string refusal;                          ///< not "": it cannot be
  std::optional<planner::Candidate> candidate;  ///< the plan then
  double tokens_per_second = 0;                 ///< then, against the plan's own
  double gain = 0;                              ///< in tokens a second, as a share
};

/// Costs at another micro-batch size, or nothing where they are not known.
using CostsAtSize = std::function<std::optional<planner::ModelCosts>(int64_t micro_batch)>;

/// The plan with one chunk more, double M, micro-batches of half and of double size, faster links, more
/// memory, and a lighter head: schedule and slack stay, stages are cut anew. `request`: what it was made for.
std::vector<WhatIf> what_if(const planner::Plan& plan, const planner::PlanRequest& request,
                            const CostsAtSize& costs_at);

std::string table(const std::vector<WhatIf>& rows);
nlohmann::ordered_json to_json(const std::vector<WhatIf>& rows);

}  // namespace penstock::commands
