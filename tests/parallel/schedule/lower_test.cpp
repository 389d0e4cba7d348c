#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/schedule/rendezvous.h"
#include "parallel/schedule/wiring.h"
#include "tests/parallel/schedule/lowered.h"
#include "tests/parallel/schedule/oracle.h"

namespace penstock::schedule {
namespace {

std::vector<std::string> words(const RankProgram& rank) {
  std::vector<std::string> all;
  for (const Instruction& each : rank.instructions) all.push_back(to_string(each));
  return all;
}

TEST(Lowering, PlacesTransfersAndReductions) {
  LoweringOptions options;
  options.tied_embeddings = true;
  options.sharded_optimizer = true;
  const Schedule schedule = generate("1f1b", {2, 2});
  const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), options);
  EXPECT_THAT(words(program.ranks[0]),
              testing::ElementsAre("0F0", "send 0F0 to rank 1", "0F1", "send 0F1 to rank 1",
                                   "receive 1B0 from rank 1", "0B0", "receive 1B1 from rank 1", "0B1",
                                   "reduce gradients of stage 0", "sum tied gradients of stage 0",
                                   "optimizer step", "gather parameters of stage 0"));
  EXPECT_THAT(words(program.ranks[1]),
              testing::ElementsAre("receive 0F0 from rank 0", "1F0", "receive 0F1 from rank 0", "1B0",
                                   "send 1B0 to rank 0", "1F1", "1B1", "send 1B1 to rank 0",
                                   "reduce gradients of stage 1", "sum tied gradients of stage 1",
                                   "optimizer step", "gather parameters of stage 1"));
  EXPECT_FALSE(program.ranks[0].instructions[5].last);
  EXPECT_TRUE(program.ranks[0].instructions[7].last);
  EXPECT_TRUE(program.ranks[0].instructions[8].last);
  EXPECT_EQ(program.slots, (std::vector<int>{2, 1}));
  EXPECT_EQ(program.weight_slots, (std::vector<int>{0, 0}));
}

// With replicas and without: both ranks that hold a block reduce it with each other, in the same place of the
// global order.
TEST(Lowering, CopiesAreReducedTogether) {
  const Schedule schedule = generate("dualpipe", {4, 8});
  for (const bool replicas : {false, true}) {
    LoweringOptions options;
    options.reduce_gradients = replicas;
    const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), options);
    EXPECT_TRUE(validate(program).empty());
    std::map<int, std::vector<const Instruction*>> reductions;
    for (int rank = 0; rank < 4; ++rank) {
      for (const Instruction& each : program.ranks[static_cast<size_t>(rank)].instructions) {
        if (each.kind != InstructionKind::reduce_gradients) continue;
        EXPECT_TRUE(each.last);
        EXPECT_EQ(each.peer, 3 - rank);
        EXPECT_EQ(schedule.rank_of_stage[static_cast<size_t>(each.action.stage)], rank);
        reductions[schedule.block_of(each.action.stage)].push_back(&each);
      }
    }
    ASSERT_EQ(reductions.size(), 4U);
    for (const auto& [block, both] : reductions) {
      ASSERT_EQ(both.size(), 2U) << block;
      EXPECT_EQ(both[0]->order, both[1]->order);
      EXPECT_NE(both[0]->action.stage, both[1]->action.stage);
    }
  }
}

// The head of one copy and the embedding of the other are on one rank: nothing is exchanged.
TEST(Lowering, TiedSumsOfTwoCopiesStayOnTheirRank) {
  const Schedule schedule = generate("chimera", {4, 4});
  LoweringOptions options;
  options.tied_embeddings = true;
  const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), options);
  EXPECT_TRUE(validate(program).empty());
  for (int rank = 0; rank < 4; ++rank) {
    const auto all = words(program.ranks[static_cast<size_t>(rank)]);
    const auto sums = std::count_if(all.begin(), all.end(),
                                    [](const std::string& each) { return each.rfind("sum tied", 0) == 0; });
    EXPECT_EQ(sums, rank == 0 || rank == 3 ? 1 : 0);
    for (const Instruction& each : program.ranks[static_cast<size_t>(rank)].instructions) {
      if (each.kind != InstructionKind::sum_tied) continue;
      EXPECT_EQ(each.peer, rank);
    }
  }
}

TEST(Lowering, CopiesAreReducedOnceAStep) {
  const Schedule schedule = generate("dualpipe", {4, 8});
  LoweringOptions options;
  options.reduce_every = 2;
  EXPECT_THROW(lower(schedule, stage_costs(schedule, {1, 1, 1}), options), ScheduleError);
}

TEST(Lowering, PartialReductionsFollowEveryFewMicroBatches) {
  LoweringOptions options;
  options.reduce_every = 2;
  const Schedule schedule = generate("zb-h1", {2, 6});
  const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), options);
  EXPECT_TRUE(validate(program).empty());
  for (const RankProgram& rank : program.ranks) {
    std::vector<std::string> halves{"",
                                    ""};  // of the sums, in their order, by what accumulates in I and in W
    for (const Instruction& each : rank.instructions) {
      if (each.kind != InstructionKind::reduce_gradients || each.last) continue;
      halves[each.action.op == Op::backward_input ? 0 : 1] += to_string(each.action).substr(1) + " ";
    }
    EXPECT_THAT(halves, testing::ElementsAre("I1 I3 ", "W1 W3 "));
    EXPECT_EQ(std::count_if(rank.instructions.begin(), rank.instructions.end(),
                            [](const Instruction& each) {
                              return each.kind == InstructionKind::reduce_gradients && each.last;
                            }),
              1);
  }
}

// Position of what `text` says in a rank's list.
size_t place(const RankProgram& rank, const std::string& text) {
  const std::vector<std::string> all = words(rank);
  const auto found = std::find(all.begin(), all.end(), text);
  EXPECT_NE(found, all.end()) << text;
  return static_cast<size_t>(found - all.begin());
}

// Two windows have memory at once: the third begins when the first was summed and cleared, each half by
// itself.
TEST(Lowering, AWindowWaitsForTheSumOfTheWindowBeforeTheLast) {
  LoweringOptions options;
  options.reduce_every = 2;
  const Schedule schedule = generate("zb-h2", {2, 7});
  Costs costs = stage_costs(schedule, {1, 1, 1});
  costs.gradient_reduction = {0.5};
  const Program program = lower(schedule, costs, options);
  EXPECT_TRUE(validate(program).empty());
  std::vector<Violation> found;
  const Wiring wiring = wire(program, found);
  for (size_t rank = 0; rank < 2; ++rank) {
    for (const std::string half : {"I", "W"}) {
      const std::string stage = std::to_string(rank);
      const auto id = [&](const std::string& text) {
        return wiring.first[rank] + static_cast<int>(place(program.ranks[rank], text));
      };
      const auto sum = [&](const std::string& micro_batch) {
        return id("reduce gradients of stage " + stage + " up to " + stage + half + micro_batch);
      };
      const auto waits = [&](int of) { return wiring.waits_for[static_cast<size_t>(of)]; };
      EXPECT_EQ(waits(sum("1"))[0], id(stage + half + "1"));
      EXPECT_EQ(waits(sum("3"))[0], id(stage + half + "3"));
      EXPECT_EQ(waits(id(stage + half + "4"))[2], sum("1"));
      EXPECT_EQ(waits(id(stage + half + "6"))[2], sum("3"));
      for (const std::string micro_batch : {"0", "1", "2", "3", "5"})
        EXPECT_EQ(waits(id(stage + half + micro_batch))[2], -1);
      // A list in which the sum comes after the window that needs its memory is refused.
      Program late = program;
      auto& list = late.ranks[rank].instructions;
      const auto from = list.begin() + (sum("1") - wiring.first[rank]);
      const auto to = list.begin() + (id(stage + half + "4") - wiring.first[rank]);
      std::rotate(from, from + 1, to + 1);
      ASSERT_FALSE(validate(late).empty());
    }
  }
}

TEST(Lowering, OneRankSendsNothing) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.copies > 1) continue;
    const Schedule schedule = generate(kind.name, {1, 4});
    LoweringOptions options;
    options.tied_embeddings = true;
    const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), options);
    EXPECT_TRUE(validate(program).empty()) << kind.name;
    for (const Instruction& each : program.ranks[0].instructions)
      EXPECT_FALSE(each.is_transfer()) << kind.name;
    EXPECT_EQ(program.ranks[0].buffers[static_cast<size_t>(BufferPool::activation_in)], 0);
  }
}

TEST(Lowering, ReceiveBuffersAreBoundByTheLead) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int lead : {0, 1, 2, 4}) {
      LoweringOptions options;
      options.receive_lead = lead;
      const Schedule schedule = generate(kind.name, {4, 16});
      const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), options);
      EXPECT_TRUE(validate(program).empty()) << kind.name;
      for (const RankProgram& rank : program.ranks) {
        EXPECT_LE(rank.buffers[static_cast<size_t>(BufferPool::activation_in)], lead + 1) << kind.name;
        EXPECT_LE(rank.buffers[static_cast<size_t>(BufferPool::gradient_in)], lead + 1) << kind.name;
      }
    }
  }
}

// Memory must not depend on M: slots from I to W in particular.
TEST(Lowering, SlotsDoNotGrowWithTheMicroBatches) {
  for (const char* name :
       {"1f1b", "zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe", "dualpipev", "interleaved"}) {
    const auto slots = [&](int M) {
      const Schedule schedule = generate(name, {4, M, name == std::string("interleaved") ? 2 : 0});
      const Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), {});
      return std::pair(program.slots, program.weight_slots);
    };
    EXPECT_EQ(slots(16), slots(64)) << name;
  }
}

// Why there is one global order: receives placed just before their reader, and sends just after their
// producer.
Program obvious(const Schedule& schedule) {
  Program program = lower(schedule, stage_costs(schedule, {1, 1, 1}), {});
  for (RankProgram& rank : program.ranks) {
    std::vector<Instruction> list;
    for (const Instruction& compute : rank.instructions) {
      if (compute.kind != InstructionKind::compute) continue;
      const auto carries = [&](InstructionKind kind, const Buffer& buffer) {
        for (const Instruction& each : rank.instructions) {
          const bool receive = kind == InstructionKind::receive;
          const int stage =
              compute.action.op == Op::forward ? compute.action.stage - 1 : compute.action.stage + 1;
          if (each.kind == kind && !buffer.none() && each.action.micro_batch == compute.action.micro_batch &&
              each.carries_gradient() == (compute.action.op != Op::forward) &&
              each.action.stage == (receive ? stage : compute.action.stage)) {
            list.push_back(each);
          }
        }
      };
      carries(InstructionKind::receive, compute.input);
      list.push_back(compute);
      carries(InstructionKind::send, compute.output);
    }
    rank.instructions = list;
  }
  return program;
}

TEST(Rendezvous, TheObviousLoweringDeadlocks) {
  const auto deadlocks = [](const char* name, QueueLayout layout) {
    const Program program = obvious(generate(name, {4, 8, name == std::string("interleaved") ? 2 : 0}));
    std::vector<Violation> found;
    const Wiring wiring = wire(program, found);
    return !found.empty() || !run_to_end(program, wiring, layout).empty();
  };
  EXPECT_TRUE(deadlocks("1f1b", QueueLayout::one_communication));
  EXPECT_TRUE(deadlocks("zbv", QueueLayout::send_and_receive));
  EXPECT_TRUE(deadlocks("dualpipev", QueueLayout::send_and_receive));
  EXPECT_FALSE(deadlocks("gpipe", QueueLayout::send_and_receive));
}

// The one order and the bounded buffers cost nothing: the program is as fast as messages without any queue.
TEST(Lowering, TheGlobalOrderCostsNothing) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int P : {2, 3, 4, 8}) {
      for (const int M : {1, P, 2 * P, 3 * P + 2}) {
        for (const double latency : {0.0, 1.0, 7.0, 40.0}) {
          const ScheduleOptions options{P, M, kind.max_chunks > 2 ? 4 : 0};
          if (!kind.refusal(options).empty()) continue;
          const Schedule schedule = generate(kind.name, options);
          const StageCosts stage{10, 12, 7};
          const Measures measures = simulated(schedule, stage_costs(schedule, stage, latency));
          EXPECT_EQ(measures.makespan, oracle::makespan(schedule, stage_costs(schedule, stage), latency))
              << kind.name << " P = " << P << " M = " << M << " latency " << latency;
        }
      }
    }
  }
}

TEST(Lowering, RefusesWhatItCannotLower) {
  Schedule schedule = generate("1f1b", {2, 2});
  const Costs costs = stage_costs(schedule, {1, 1, 1});
  LoweringOptions options;
  options.receive_lead = -1;
  EXPECT_THROW(lower(schedule, costs, options), ScheduleError);
  EXPECT_THROW(lower(schedule, stage_costs(generate("1f1b", {3, 2}), {1, 1, 1}), {}), ScheduleError);
  EXPECT_THROW(lower(schedule, stage_costs(schedule, {1, -1, 1}), {}), ScheduleError);
  schedule.actions[0].pop_back();
  EXPECT_THROW(lower(schedule, costs, {}), ScheduleError);
}

}  // namespace
}  // namespace penstock::schedule
