#include "trainer/accounting/measured_costs.h"

#include <vector>

#include <gtest/gtest.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/simulate.h"

namespace penstock::accounting {
namespace {

// Of a tied sum's owners the last stage's is ready long before the first one's, and a real one's sum begins
// then: the wait is not what the sum costs.
TEST(MeasuredCosts, TheTiedSumIsWithoutTheWaitForItsOtherOwner) {
  const schedule::Schedule schedule = schedule::generate("1f1b", {.ranks = 4, .micro_batches = 6});
  schedule::Costs costs = schedule::uniform_costs(4, 1, {1, 1, 1});
  costs.tied_sum = 0.25;
  schedule::LoweringOptions options;
  options.tied_embeddings = true;
  const schedule::Program program = schedule::lower(schedule, costs, options);
  const schedule::Timeline timeline = schedule::simulate(program, costs);
  std::vector<RankTimes> ranks;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    ranks.push_back(times_of(timeline, rank));
    double last_end = 0;
    for (size_t i = 0; i < ranks.back().instructions.size(); ++i) {
      InstructionTimes& at = ranks.back().instructions[i];
      const schedule::InstructionKind kind = program.ranks[rank].instructions[i].kind;
      if (kind == schedule::InstructionKind::compute) last_end = at.end;
      if (kind == schedule::InstructionKind::sum_tied) at.start = last_end;
    }
  }
  MeasuredCosts measured(program, 1);
  measured.add(ranks);
  EXPECT_DOUBLE_EQ(measured.costs().tied_sum, 0.25);
}

}  // namespace
}  // namespace penstock::accounting
