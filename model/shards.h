#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/parameter.h"

namespace penstock::model {

/// Of those that share an optimizer (ZeRO-1): `count` members, of whom this is one. Each updates the elements
/// that it owns, and has moments, and masters where kernels read a copy, of those alone.
struct Shard {
  int count = 1;
  int member = 0;
  bool operator==(const Shard&) const = default;
};

/// Parameters that are neighbours in a unit's buffers and are split over the members as one: places in the
/// unit's list.
using ShardRun = std::vector<size_t>;

/// A unit's runs, in the order of its buffers: of those that accumulate in backward_input, then of the
/// others; apart where kernels read a copy of some and the masters of others; a weight of the vocabulary by
/// itself, so that both owners of a tied one split it alike.
std::vector<ShardRun> shard_runs(const std::vector<ParameterSpec>& specs);

/// What a member owns of each parameter of a unit; possibly nothing. Whole blocks of math::norm_block
/// elements counted from the parameter's first (contract C1 g), one after another in a run's order, so that
/// it owns one stretch of each run: the blocks whose middle lies in its even share of the run's elements. It
/// follows from the unit and the number of members alone.
std::vector<Slice> shard_slices(const std::vector<ParameterSpec>& specs, const Shard& shard);

/// The stretch of a run between the first and the last element that `slices` give of it, in a buffer whose
/// elements have `size` bytes and where the parameters of the unit begin at `offsets` bytes; empty where they
/// give none.
Slice shard_stretch(const ShardRun& run, const std::vector<Slice>& slices, const std::vector<size_t>& offsets,
                    size_t size);

}  // namespace penstock::model
