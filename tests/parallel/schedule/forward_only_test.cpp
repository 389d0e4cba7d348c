// The forward-only program: everything once, in order, from buffers that hold the right thing, and it runs to
// its end however the queues are laid out.
#include "parallel/schedule/forward_only.h"

#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/rendezvous.h"
#include "parallel/schedule/wiring.h"

namespace penstock::schedule {
namespace {

Schedule placed(const std::string& name, int ranks, int chunks) {
  ScheduleOptions options;
  options.ranks = ranks;
  options.chunks = chunks;
  options.micro_batches = 4 * ranks;
  return generate(name, options);
}

// Follows each rank's list with buffers that remember what they hold.
void check_contents(const Program& program) {
  for (const RankProgram& rank : program.ranks) {
    std::map<std::pair<BufferPool, int>, Action> holds;
    std::map<int, int> next;
    for (const Instruction& at : rank.instructions) {
      for (const Buffer& buffer : {at.input, at.output}) {
        if (buffer.none()) continue;
        ASSERT_LT(buffer.index, rank.buffers[static_cast<size_t>(buffer.pool)]) << to_string(at);
      }
      const auto held = [&](const Buffer& buffer) { return holds.at({buffer.pool, buffer.index}); };
      if (at.kind == InstructionKind::compute) {
        EXPECT_EQ(next[at.action.stage]++, at.action.micro_batch);
        ASSERT_EQ(at.input.none(), at.action.stage == 0);
        if (!at.input.none()) {
          EXPECT_EQ(held(at.input), (Action{Op::forward, at.action.stage - 1, at.action.micro_batch}));
        }
        EXPECT_EQ(at.output.none(), program.schedule.is_last(at.action.stage));
      } else if (at.kind == InstructionKind::send) {
        EXPECT_EQ(held(at.input), at.action);
      }
      if (!at.output.none()) holds[{at.output.pool, at.output.index}] = at.action;
    }
    for (const auto& [stage, count] : next) EXPECT_EQ(count, program.schedule.micro_batches) << stage;
  }
}

TEST(ForwardOnly, RunsToItsEndEverywhere) {
  const std::vector<std::pair<std::string, int>> kinds{
      {"1f1b", 1}, {"interleaved", 2}, {"interleaved", 3}, {"zbv", 2}, {"hanayo", 4}};
  for (const auto& [name, chunks] : kinds) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      const Schedule placement = placed(name, ranks, chunks);
      for (const int micro_batches : {1, 2, 5, 16}) {
        SCOPED_TRACE(
            fmt::format("{}, {} ranks, {} chunks, {} micro-batches", name, ranks, chunks, micro_batches));
        const Program program = forward_only(placement, micro_batches);
        size_t computes = 0;
        for (const auto& actions : program.schedule.actions) computes += actions.size();
        EXPECT_EQ(computes, static_cast<size_t>(ranks * chunks * micro_batches));
        check_contents(program);
        std::vector<Violation> found;
        const Wiring wiring = wire(program, found);
        ASSERT_TRUE(found.empty()) << found.front().text();
        for (const QueueLayout layout :
             {QueueLayout::serial, QueueLayout::one_communication, QueueLayout::send_and_receive}) {
          const auto stuck = run_to_end(program, wiring, layout);
          EXPECT_TRUE(stuck.empty()) << to_string(layout) << ": " << stuck.front().text();
        }
      }
    }
  }
}

TEST(ForwardOnly, BuffersDoNotGrowWithMicroBatches) {
  for (const auto& [name, chunks] :
       std::vector<std::pair<std::string, int>>{{"1f1b", 1}, {"zbv", 2}, {"interleaved", 2}}) {
    const Schedule placement = placed(name, 4, chunks);
    const Program few = forward_only(placement, 32);
    const Program many = forward_only(placement, 128);
    for (size_t rank = 0; rank < few.ranks.size(); ++rank)
      EXPECT_EQ(few.ranks[rank].buffers, many.ranks[rank].buffers) << name << ", rank " << rank;
  }
}

TEST(ForwardOnly, RefusesWhatItCannotDo) {
  EXPECT_THROW(forward_only(placed("1f1b", 2, 1), 0), ScheduleError);
}

TEST(ForwardOnly, OfTwoCopiesRunsTheFirst) {
  const Program program = forward_only(placed("chimera", 4, 1), 5);
  check_contents(program);
  for (size_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(program.schedule.actions[rank].size(), 5U);
    for (const Action& each : program.schedule.actions[rank]) EXPECT_EQ(each.stage, static_cast<int>(rank));
  }
  std::vector<Violation> found;
  const Wiring wiring = wire(program, found);
  ASSERT_TRUE(found.empty()) << found.front().text();
  EXPECT_TRUE(run_to_end(program, wiring, QueueLayout::serial).empty());
}

}  // namespace
}  // namespace penstock::schedule
