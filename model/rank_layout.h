#pragma once

#include "model/layout.h"
#include "model/rank_config.h"

namespace penstock::model {

/// Adds what of its units' parameters the optimizer of a rank of this configuration owns, a tied weight once.
void add_held(const RankConfig& config, int rank, layout::Layout& layout);

}  // namespace penstock::model
