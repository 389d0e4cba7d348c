#pragma once

#include <cstddef>
#include <span>

#include "trainer/accounting/rank_times.h"

namespace penstock::accounting {

/// A rank's times of a step as they travel: a head of fixed size, the recomputation of each of its stages,
/// and four 32-bit numbers an instruction, in units of the step's length ÷ 2³² (a step of 10 s: 2.3 ns).
size_t record_bytes(size_t instructions, size_t stages);

/// `record` is record_bytes() of the times' sizes.
void write_record(const RankTimes& times, std::span<std::byte> record);
/// `times` has the sizes with which the record was written.
void read_record(std::span<const std::byte> record, RankTimes& times);

}  // namespace penstock::accounting
