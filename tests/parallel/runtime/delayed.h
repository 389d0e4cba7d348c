#pragma once

#include <vector>

#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {

/// What an asynchronous job must be equal to, bit by bit: one process that simulates its delay. A model with
/// one version of the weights, whose masters are exchanged around each step; it knows no schedule, no second
/// version and no second set of gradients. Replicas one after another, added in their order.
Result train_delayed(const Job& job);

/// How a rank of an asynchronous job trains: steps overlap, but that the pipeline is drained behind those of
/// `drained`.
RankTraining overlapping(const std::vector<int>& drained = {});

}  // namespace penstock::testing
