#pragma once

#include <cstdint>
#include <vector>

#include "model/model_section.h"
#include "parallel/planner/cut.h"
#include "parallel/planner/parallel_section.h"
#include "parallel/planner/unit_costs.h"

namespace penstock::runtime {

/// What a unit counts for under a method:
///   layers      attention and mlp 1 each, embedding and head 0
///   parameters  its parameters, padding included
///   flops       of a token forward: 2 a matrix element, 4·H·D a visible key; the embedding's look-up 0
/// `measured` without costs counts as flops.
std::vector<double> unit_costs(const ModelSection& model, PartitionMethod method);

/// Seconds of each unit for a micro-batch under one recompute mode: F + R + I + W.
std::vector<double> unit_seconds(const planner::ModelCosts& costs, planner::Recompute mode);

/// Units of each stage. `listed`: for PartitionMethod::units. planner::PartitionError, with the numbers, for
/// more stages than units, and for a list that has an empty stage or does not add up.
std::vector<int> partition(const ModelSection& model, PartitionMethod method,
                           const std::vector<int64_t>& listed, int stages);

}  // namespace penstock::runtime
