// Records on their way: what comes together on the pipeline's first rank is what the ranks sent.
#include "trainer/accounting/record.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/simulate.h"
#include "trainer/accounting/accountant.h"
#include "trainer/accounting/record_gathering.h"
#include "trainer/accounting/summary.h"

namespace penstock::accounting {
namespace {

RankTimes some_times() {
  RankTimes times;
  times.instructions = {{100.5, 101, 0, 103.25}, {0, 103.25, 104, 106.5}, {100.75, 106.5, 0, 106.5}};
  times.host[2] = {Part::data, 99, 100.25};
  times.standstills[1] = {101.5, 103};
  times.offered = 106.75;
  times.agreed = 107;
  times.recompute = {0.25, 0.5};
  times.clock_error = 1e-6;
  times.memory_peak = 1e9;
  times.optimizer_before = {100.25, 102, 0, 102.5};
  return times;
}

RankTimes sent(const RankTimes& times) {
  std::vector<std::byte> record(record_bytes(times.instructions.size(), times.recompute.size()));
  write_record(times, record);
  RankTimes read;
  read.instructions.resize(times.instructions.size());
  read.recompute.resize(times.recompute.size());
  read_record(record, read);
  return read;
}

TEST(Record, KeepsTimesToABillionthOfTheStep) {
  const RankTimes times = some_times();
  const RankTimes read = sent(times);
  constexpr double exact = 1e-9 * 6;
  for (size_t i = 0; i < times.instructions.size(); ++i) {
    EXPECT_NEAR(read.instructions[i].start, times.instructions[i].start, exact);
    EXPECT_NEAR(read.instructions[i].end, times.instructions[i].end, exact);
    EXPECT_NEAR(read.instructions[i].middle, times.instructions[i].middle, exact);
    EXPECT_NEAR(read.instructions[i].enqueued, times.instructions[i].enqueued, exact);
  }
  // What happened at one time still does, and what nobody looked at is still not there.
  EXPECT_EQ(read.instructions[0].end, read.instructions[1].start);
  EXPECT_EQ(read.instructions[0].middle, 0);
  EXPECT_EQ(read.instructions[1].enqueued, 0);
  EXPECT_EQ(read.host[2].part, Part::data);
  EXPECT_EQ(read.host[2].end, 100.25);
  EXPECT_EQ(read.standstills[1].begin, 101.5);
  EXPECT_EQ(read.standstills[1].end, 103);
  EXPECT_EQ(read.offered, times.offered);
  EXPECT_EQ(read.agreed, times.agreed);
  EXPECT_EQ(read.recompute, times.recompute);
  EXPECT_EQ(read.memory_peak, times.memory_peak);
  EXPECT_EQ(read.optimizer_before.enqueued, 100.25);
  EXPECT_EQ(read.optimizer_before.start, 102);
  EXPECT_EQ(read.optimizer_before.end, 102.5);
  EXPECT_EQ(read.clock_error, times.clock_error);
}

TEST(Record, OfNothingAndOfAVirtualClocksZero) {
  EXPECT_TRUE(sent({}).instructions.empty());
  RankTimes zero;
  zero.instructions = {{0, 0, 0, 0}};
  EXPECT_EQ(sent(zero).instructions[0].start, 0);
  EXPECT_EQ(sent(zero).instructions[0].end, 0);
}

TEST(Record, TellsRecomputationApartByTheShareOfOneMicroBatch) {
  const schedule::Schedule schedule = schedule::generate("1f1b", {1, 4});
  schedule::Costs costs;
  costs.blocks = {{1, 3, 2}};
  const schedule::Program program = lower(schedule, costs, {});
  std::vector<RankTimes> ranks{times_of(simulate(program, costs), 0)};
  for (size_t i = 0; i < ranks[0].instructions.size(); ++i) {
    InstructionTimes& at = ranks[0].instructions[i];
    if (at.end - at.start == 5) at.middle = at.start + 3;
  }
  ranks[0].recompute = {0.75};
  Accountant accountant(program);
  const PartSeconds& parts = accountant.account(ranks, std::nullopt).ranks[0].parts;
  EXPECT_EQ(parts[Part::forward], 4);
  EXPECT_EQ(parts[Part::recompute], 3);
  EXPECT_EQ(parts[Part::backward_input], 9);
  EXPECT_EQ(parts[Part::backward_weight], 8);
  EXPECT_EQ(parts.busy(), parts.all());
}

// Two pipelines of three: each comes together on its first rank, their accounts on rank 0.
TEST(RecordGathering, BringsTimesToTheirPipelineAndAccountsToRankZero) {
  const schedule::Schedule schedule = schedule::generate("zb-h1", {3, 6});
  schedule::Costs costs;
  costs.blocks = {{1, 2, 1}, {2, 1, 1}, {1, 1, 3}};
  const schedule::Program program = lower(schedule, costs, {});
  const schedule::Timeline timeline = simulate(program, costs);
  const auto times_of_rank = [&](size_t rank, size_t replica, int step) {
    RankTimes times = times_of(timeline, rank);
    for (InstructionTimes& at : times.instructions) {
      at.start = at.start * static_cast<double>(1 + replica) + step;
      at.end = at.end * static_cast<double>(1 + replica) + step;
    }
    times.recompute = {static_cast<double>(step) / 16};
    return times;
  };
  transport::run_inproc(6, {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    DeviceOptions options;
    options.rank = world.rank();
    const auto device = cpu::make_cpu_device(options);
    // Replicas beside one another in the world.
    RecordGathering gathering(world, *device, {{0, 2, 4}, {1, 3, 5}}, program);
    const auto rank = static_cast<size_t>(world.rank() / 2);
    const auto replica = static_cast<size_t>(world.rank() % 2);
    EXPECT_EQ(gathering.leads(), rank == 0);
    for (int step = 0; step < 3; ++step) {
      gathering.own() = times_of_rank(rank, replica, step);
      gathering.send();
      const std::span<const RankTimes> all = gathering.receive();
      ASSERT_EQ(all.size(), rank == 0 ? 3u : 0u);
      for (size_t other = 0; other < all.size(); ++other) {
        const RankTimes expected = times_of_rank(other, replica, step);
        EXPECT_EQ(all[other].recompute, expected.recompute);
        for (size_t i = 0; i < expected.instructions.size(); ++i) {
          EXPECT_NEAR(all[other].instructions[i].start, expected.instructions[i].start, 1e-7);
          EXPECT_NEAR(all[other].instructions[i].end, expected.instructions[i].end, 1e-7);
        }
      }
      if (rank != 0) continue;
      Accountant accountant(program);
      const StepAccount& account = accountant.account(all, std::nullopt);
      const std::span<const StepAccount> accounts = gathering.share(account);
      ASSERT_EQ(accounts.size(), replica == 0 ? 2u : 0u);
      for (size_t d = 0; d < accounts.size(); ++d) {
        std::vector<RankTimes> expected;
        for (size_t other = 0; other < 3; ++other) expected.push_back(times_of_rank(other, d, step));
        Accountant again(program);
        const StepAccount& whole = again.account(expected, std::nullopt);
        EXPECT_NEAR(accounts[d].seconds(), whole.seconds(), 1e-6);
        for (size_t other = 0; other < 3; ++other) {
          EXPECT_NEAR(accounts[d].ranks[other].parts.bubble(), whole.ranks[other].parts.bubble(), 1e-6);
          ASSERT_EQ(accounts[d].ranks[other].root() == nullptr, whole.ranks[other].root() == nullptr);
          if (whole.ranks[other].root() == nullptr) continue;
          EXPECT_EQ(accounts[d].ranks[other].root()->rank, whole.ranks[other].root()->rank);
        }
        EXPECT_NEAR(accounts[d].stage_busy[1], whole.stage_busy[1], 1e-6);
      }
    }
  });
}

}  // namespace
}  // namespace penstock::accounting
