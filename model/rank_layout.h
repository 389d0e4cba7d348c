#pragma once

#include "model/layout.h"
#include "model/rank_config.h"

namespace penstock::model {

/// Adds what a rank of this configuration holds: every parameter of its units, a tied weight once.
void add_held(const RankConfig& config, int rank, layout::Layout& layout);

}  // namespace penstock::model
