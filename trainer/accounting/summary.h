#pragma once

#include <cstddef>
#include <span>

#include "trainer/accounting/step_account.h"

namespace penstock::accounting {

/// A pipeline's account as it travels to rank 0: bytes, as many as ranks and stages alone decide. Of
/// each rank's culprits the largest few go along.
size_t summary_bytes(size_t ranks, size_t stages);
void write_summary(const StepAccount& account, std::span<std::byte> bytes);
/// `account` has the ranks and stages with which the summary was written.
void read_summary(std::span<const std::byte> bytes, StepAccount& account);

}  // namespace penstock::accounting
