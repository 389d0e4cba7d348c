// Accounting runs in every step: once it has accounted for a step it allocates nothing.
#include <vector>

#include <gtest/gtest.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/simulate.h"
#include "tests/allocation_count/allocation_count.h"
#include "trainer/accounting/accountant.h"
#include "trainer/accounting/measured_costs.h"
#include "trainer/accounting/record.h"

namespace penstock::accounting {
namespace {

TEST(Accounting, AllocatesNothingAfterTheFirstStep) {
  const schedule::Schedule schedule = schedule::generate("interleaved", {4, 16, 2});
  schedule::Costs costs;
  for (int stage = 0; stage < schedule.stages(); ++stage)
    costs.blocks.push_back({1.0 + stage % 3, 2, 1.0 + stage % 2});
  costs.links = {{0.25, 0.5}};
  const schedule::Program program = lower(schedule, costs, {});
  const schedule::Timeline timeline = simulate(program, costs);
  std::vector<RankTimes> ranks;
  std::vector<std::vector<std::byte>> records;
  for (size_t rank = 0; rank < 4; ++rank) {
    ranks.push_back(times_of(timeline, rank));
    ranks.back().recompute = {0.5, 0.5};
    records.emplace_back(record_bytes(ranks.back().instructions.size(), 2));
  }
  Accountant accountant(program);
  MeasuredCosts measured(program, 4);
  int64_t before = 0;
  for (int step = 0; step < 4; ++step) {
    for (size_t rank = 0; rank < 4; ++rank) {
      write_record(ranks[rank], records[rank]);
      read_record(records[rank], ranks[rank]);
    }
    EXPECT_GT(accountant.account(ranks, std::nullopt).seconds(), 0);
    measured.add(ranks);
    if (step == 0) before = allocations();
  }
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace penstock::accounting
