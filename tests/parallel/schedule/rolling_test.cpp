// A schedule without a flush as lists that follow one another: every window that they make is a valid
// program, none has a bubble, and what a rank holds does not grow with the steps.
#include "parallel/schedule/rolling.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/schedule/lowered.h"
#include "tests/parallel/schedule/oracle.h"

namespace penstock::schedule {
namespace {

using ::testing::HasSubstr;

Schedule window(int ranks, int micro_batches, int steps = RollingProgram::steps) {
  return generate("2bw", {ranks, micro_batches, 0, 0, 0, steps});
}

LoweringOptions every_sum(bool sharded = true) {
  LoweringOptions options;
  options.tied_embeddings = true;
  options.sharded_optimizer = sharded;
  options.receive_lead = 2;
  return options;
}

std::vector<Costs> costs_of(const Schedule& schedule) {
  std::vector<Costs> all{stage_costs(schedule, {1, 1, 1}), stage_costs(schedule, {4, 4, 4}, 1),
                         stage_costs(schedule, {1, 1, 1}, 3)};
  Costs uneven = stage_costs(schedule, {7, 8, 5}, 0.37);
  for (size_t stage = 0; stage < uneven.blocks.size(); ++stage)
    uneven.blocks[stage].forward += 3.1 * static_cast<double>(stage % 3);
  uneven.blocks.back().forward = 0;
  all.push_back(uneven);
  return all;
}

TEST(Rolling, EveryWindowIsValid) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int micro_batches = ranks; micro_batches <= 2 * ranks + 3; ++micro_batches) {
      const Schedule schedule = window(ranks, micro_batches);
      for (const Costs& costs : costs_of(schedule)) {
        SCOPED_TRACE(testing::Message() << "P = " << ranks << ", M = " << micro_batches);
        for (const bool sharded : {false, true}) {
          const RollingProgram made = roll(schedule, costs, every_sum(sharded));
          EXPECT_TRUE(validate(made.window).empty());
          if (ranks <= 4) {
            EXPECT_EQ(oracle::problem(made.window), "");
          }
        }
      }
    }
  }
}

// A step's list is that of the step before, one step later; its numbers are those of its micro-batches.
TEST(Rolling, ListsRepeat) {
  const int micro_batches = 7;
  const Schedule schedule = window(4, micro_batches);
  const RollingProgram made = roll(schedule, costs_of(schedule)[3], every_sum());
  for (size_t rank = 0; rank < 4; ++rank) {
    const auto& all = made.window.ranks[rank].instructions;
    ASSERT_EQ(made.lists[rank].size(), all.size());
    std::map<int, std::vector<std::string>> lists;
    for (size_t i = 0; i < all.size(); ++i) {
      Instruction each = all[i];
      const int list = made.lists[rank][i];
      const bool of_micro_batch = each.kind == InstructionKind::compute || each.is_transfer();
      each.action.micro_batch -= of_micro_batch ? list * micro_batches : 0;
      lists[list].push_back(to_string(each) + std::to_string(each.step - list));
      if (each.kind != InstructionKind::compute) continue;
      EXPECT_EQ(all[i].slot, all[i].action.micro_batch % (4 - static_cast<int>(rank)));
      EXPECT_EQ(made.window.slots[rank], 4 - static_cast<int>(rank));  // not more than one flushed step has
    }
    for (int list = 2; list < RollingProgram::steps; ++list) EXPECT_EQ(lists[list], lists[1]) << list;
    // What a start leaves out, a drain makes up for.
    EXPECT_EQ(lists[RollingProgram::first].size() + lists[RollingProgram::drain].size(), lists[1].size());
  }
}

// What a step's owners updated is gathered behind their update and ahead of the first forward that reads it,
// that of the step after the next.
TEST(Rolling, GathersBetweenUpdateAndReader) {
  const int micro_batches = 5;
  const Schedule schedule = window(4, micro_batches);
  const RollingProgram made = roll(schedule, costs_of(schedule)[1], every_sum());
  for (size_t rank = 0; rank < 4; ++rank) {
    const auto& all = made.window.ranks[rank].instructions;
    const auto place = [&](InstructionKind kind, int step) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const Instruction& each) {
        return each.kind == kind && each.step == step;
      });
      EXPECT_NE(found, all.end());
      return found - all.begin();
    };
    for (int step = 0; step < RollingProgram::steps; ++step) {
      const auto gather = place(InstructionKind::gather_parameters, step);
      EXPECT_GT(gather, place(InstructionKind::optimizer_step, step));
      if (step + 2 == RollingProgram::steps) break;
      const auto reader = std::find_if(all.begin(), all.end(), [&](const Instruction& each) {
        return each.kind == InstructionKind::compute && each.action.op == Op::forward &&
               each.step == step + 2;
      });
      EXPECT_LT(gather, reader - all.begin());
    }
  }
}

TEST(Rolling, HasNoBubbleInTheSteadyState) {
  for (const auto& [ranks, micro_batches] :
       {std::pair(2, 2), std::pair(4, 4), std::pair(8, 8), std::pair(8, 19)}) {
    const Schedule schedule = window(ranks, micro_batches);
    Costs costs = stage_costs(schedule, {1, 1, 1});
    const RollingProgram made = roll(schedule, costs, every_sum());
    costs.optimizer_step = 0.5;  // each on its own rank's time
    const Measures measures = measure_steady_state(made.window, simulate(made.window, costs));
    EXPECT_EQ(measures.makespan, 3 * micro_batches + 0.5);
  }
}

TEST(Rolling, RefusesWhatDoesNotRoll) {
  const auto refusal = [](const Schedule& schedule) -> std::string {
    try {
      roll(schedule, stage_costs(schedule, {1, 1, 1}), {});
    } catch (const ScheduleError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(window(2, 2, 3)), HasSubstr("3 step(s)"));
  EXPECT_THAT(refusal(generate("1f1b", {2, 2})), HasSubstr("asynchronous"));
}

}  // namespace
}  // namespace penstock::schedule
