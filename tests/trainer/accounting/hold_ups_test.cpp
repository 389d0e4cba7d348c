// A rank that stands still, or is slow at the very end, is told from a slow link and from the schedule's own
// bubble.
#include "trainer/accounting/hold_ups.h"

#include <atomic>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/simulate.h"
#include "trainer/accounting/accountant.h"
#include "trainer/accounting/standstill_watch.h"

namespace penstock::accounting {
namespace {

using schedule::Program;

constexpr double held = 10;

// One micro-batch on two ranks, 1 s an action (B: 2) and a message: F on rank 0 until 1, message until 2, F
// and B on rank 1 until 5, message until 6, B on rank 0 until 8.
struct OneMicroBatch {
  OneMicroBatch() {
    const schedule::Schedule order = schedule::generate("1f1b", {2, 1});
    schedule::Costs costs;
    costs.blocks = {{1, 1, 1}, {1, 1, 1}};
    costs.links = {{0, 1}};
    schedule::LoweringOptions options;
    options.reduce_gradients = false;
    program = lower(order, costs, options);
    const schedule::Timeline timeline = simulate(program, costs);
    for (size_t rank = 0; rank < 2; ++rank) times.push_back(times_of(timeline, rank));
  }

  // All that ends after `at` ends later.
  StepAccount stop(size_t rank, double at) {
    for (RankTimes& each : times) {
      for (InstructionTimes& instruction : each.instructions) {
        if (instruction.start > at) instruction.start += held;
        if (instruction.end > at) instruction.end += held;
      }
    }
    if (rank < 2) times[rank].standstills[0] = {at, at + held};
    return Accountant(program).account(times, std::nullopt);
  }

  Program program;
  std::vector<RankTimes> times;
};

constexpr size_t nobody = 2;

void expect_whole(const StepAccount& account) {
  for (const RankAccount& rank : account.ranks) {
    EXPECT_DOUBLE_EQ(rank.parts.all(), account.seconds());
    EXPECT_NEAR(rank.parts[Part::unexplained], 0, 1e-12);
    EXPECT_GE(rank.parts[Part::unexplained], -1e-12);
  }
}

void expect_root(const RankAccount& account, int rank, int to, double seconds) {
  ASSERT_NE(account.root(), nullptr);
  EXPECT_EQ(account.root()->rank, rank);
  EXPECT_EQ(account.root()->to, to);
  EXPECT_DOUBLE_EQ(account.root()->seconds, seconds);
}

TEST(StandingStill, OfNobodyIsASlowLink) {
  const StepAccount account = OneMicroBatch().stop(nobody, 5.5);
  expect_whole(account);
  EXPECT_DOUBLE_EQ(account.ranks[0].parts[Part::transfer], 1 + held);
  EXPECT_EQ(account.ranks[0].parts[Part::host], 0);
}

TEST(StandingStill, OfTheSenderIsAWaitForIt) {
  const StepAccount account = OneMicroBatch().stop(1, 5.5);
  expect_whole(account);
  EXPECT_DOUBLE_EQ(account.ranks[0].parts[Part::transfer], 1);
  EXPECT_DOUBLE_EQ(account.ranks[0].parts[Part::wait_backward], 4 + held);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::host], held);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::drain], 3);
  EXPECT_EQ(account.ranks[0].root()->rank, 1);
  EXPECT_EQ(account.ranks[0].root()->to, -1);
  EXPECT_GE(account.ranks[0].root()->seconds, held);
}

TEST(StandingStill, OfTheReceiverIsItsHostsAndTheOthersDrain) {
  const StepAccount account = OneMicroBatch().stop(0, 5.5);
  expect_whole(account);
  EXPECT_DOUBLE_EQ(account.ranks[0].parts[Part::transfer], 1);
  EXPECT_DOUBLE_EQ(account.ranks[0].parts[Part::host], held);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::drain], 3 + held);
  expect_root(account.ranks[1], 0, -1, held);
}

TEST(StandingStill, OfTheSenderIsBehindTheFill) {
  const StepAccount account = OneMicroBatch().stop(0, 1.5);
  expect_whole(account);
  EXPECT_DOUBLE_EQ(account.ranks[0].parts[Part::host], held);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::fill], 2 + held);
  expect_root(account.ranks[1], 0, -1, held);
}

TEST(StandingStill, OfTheReceiverIsBehindTheOthersWait) {
  const StepAccount account = OneMicroBatch().stop(1, 1.5);
  expect_whole(account);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::host], held);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::fill], 2);
  EXPECT_DOUBLE_EQ(account.ranks[0].parts[Part::wait_backward], 4 + held);
  EXPECT_EQ(account.ranks[0].root()->rank, 1);
  EXPECT_GE(account.ranks[0].root()->seconds, held);
}

// Ranks meet between two steps: the one that begins is late because another one stands still, or by itself.
TEST(StandingStill, BetweenTwoStepsIsBehindTheFirstActionToo) {
  for (const size_t culprit : {0, 1}) {
    OneMicroBatch stopped;
    stopped.times[culprit].standstills[0] = {-held, 0};
    const StepAccount account = Accountant(stopped.program).account(stopped.times, -held);
    expect_whole(account);
    for (const RankAccount& rank : account.ranks) EXPECT_DOUBLE_EQ(rank.parts[Part::host], held);
    const RankAccount& other = account.ranks[1 - culprit];
    ASSERT_NE(other.root(), nullptr) << culprit;
    EXPECT_EQ(other.root()->rank, static_cast<int>(culprit));
    EXPECT_EQ(other.root()->to, -1);
    EXPECT_GE(other.root()->seconds, held);
  }
  // Nobody stands still: the host of the rank that begins is late.
  const OneMicroBatch late;
  const StepAccount account = Accountant(late.program).account(late.times, -held);
  expect_whole(account);
  ASSERT_NE(account.ranks[1].root(), nullptr);
  EXPECT_EQ(account.ranks[1].root()->rank, 0);
  EXPECT_GE(account.ranks[1].root()->seconds, held);
}

// A sharded optimizer's gathers, at the start of a step: what a stage's first forward waits for its
// parameters is reduction, on the rank that begins and on those that fill.
TEST(Gathers, AreWaitedForByTheFirstForwards) {
  const schedule::Schedule order = schedule::generate("1f1b", {2, 1});
  schedule::Costs costs;
  costs.blocks = {{1, 1, 1}, {1, 1, 1}};
  costs.links = {{0, 1}};
  schedule::LoweringOptions options;
  options.sharded_optimizer = true;
  const Program program = lower(order, costs, options);
  const schedule::Timeline timeline = simulate(program, costs);
  std::vector<RankTimes> times{times_of(timeline, 0), times_of(timeline, 1)};
  // F of rank 0 was enqueued at 0.5 and began at 3, when its parameters were there; that of rank 1 is held up
  // by its own until 7, though its input came at 5.
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto& list = program.ranks[rank].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      InstructionTimes& at = times[rank].instructions[i];
      if (list[i].kind == schedule::InstructionKind::gather_parameters) {
        at = {0.5, 0.5, 0, rank == 0 ? 3.2 : 7.0};
        continue;
      }
      const bool late = rank == 1 && list[i].kind != schedule::InstructionKind::receive;
      const double shift = late || at.start >= 4 ? 5 : 3;
      at = {0.5, at.start + shift, 0, at.end + shift};
    }
  }
  const StepAccount account = Accountant(program).account(times, 0.0);
  expect_whole(account);
  EXPECT_DOUBLE_EQ(account.first_action, 3);
  for (const RankAccount& rank : account.ranks) EXPECT_DOUBLE_EQ(rank.parts[Part::host], 0.5);
  EXPECT_DOUBLE_EQ(account.ranks[0].parts[Part::launch], 0);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::launch], 0);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::fill], 2);
  // 2.5 before the first action on both; 2 more on rank 1, and what follows the last action.
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::reduction] - account.ranks[0].parts[Part::reduction], 2);
}

TEST(StandingStill, OfBothHasNoOtherCulprit) {
  OneMicroBatch both;
  both.times[1].standstills[2] = {5.5, 5.5 + held};
  const StepAccount account = both.stop(0, 5.5);
  expect_whole(account);
  for (const RankAccount& rank : account.ranks) EXPECT_DOUBLE_EQ(rank.parts[Part::host], held);
}

// The last backward of the first rank takes longer: the others only drain.
TEST(SlowAction, AtTheEndIsBehindTheDrain) {
  const schedule::Schedule order = schedule::generate("1f1b", {2, 4});
  schedule::Costs costs;
  costs.blocks = {{1, 1, 1}, {1, 1, 1}};
  const Program program = lower(order, costs, {});
  const schedule::Timeline timeline = simulate(program, costs);
  std::vector<RankTimes> times{times_of(timeline, 0), times_of(timeline, 1)};
  Accountant accountant(program);
  const StepAccount before = accountant.account(times, std::nullopt);
  const double end = before.last_action;
  for (RankTimes& rank : times) {
    for (InstructionTimes& at : rank.instructions) {
      if (at.start >= end) at.start += held;
      if (at.end >= end) at.end += held;
    }
  }
  const StepAccount account = accountant.account(times, std::nullopt);
  EXPECT_DOUBLE_EQ(account.ranks[1].parts[Part::drain], before.ranks[1].parts[Part::drain] + held);
  const auto behind = [](const RankAccount& rank) {
    double seconds = 0;
    for (const Culprit& each : rank.roots) seconds += each.rank == 0 && each.to < 0 ? each.seconds : 0;
    return seconds;
  };
  EXPECT_DOUBLE_EQ(behind(account.ranks[1]), behind(before.ranks[1]) + held);
}

TEST(HoldUps, CutWhereSomebodyBeginsOrEnds) {
  std::vector<RankTimes> ranks(3);
  ranks[0].standstills = {{{2, 4}, {8, 9}}};
  ranks[1].standstills[1] = {3, 6};
  HoldUps holds(3, 1);
  holds.clear(ranks);
  std::vector<std::tuple<double, double, int>> pieces;
  holds.cut({1, 0}, 1, 10, [&](double from, double to, int who) { pieces.emplace_back(from, to, who); });
  using Piece = std::tuple<double, double, int>;
  EXPECT_THAT(pieces, ::testing::ElementsAre(Piece(1, 2, -1), Piece(2, 3, 0), Piece(3, 4, 1), Piece(4, 6, 1),
                                             Piece(6, 8, -1), Piece(8, 9, 0), Piece(9, 10, -1)));
  EXPECT_EQ(holds.seconds(0, 3, 8.5), 1.5);
  EXPECT_EQ(holds.seconds(2, 0, 10), 0);
  holds.add(0, 3, 5);  // one second of it stood still
  EXPECT_EQ(holds.seconds(0, 0, 10), 4);
}

struct SteppedClock : Clock {
  bool is_virtual() const override { return false; }
  double now() const override { return time.load(); }
  std::atomic<double> time{100};
};

std::vector<Interval> noticed(const StandstillWatch& watch) {
  std::vector<Interval> intervals;
  for (const Interval& each : watch.lately()) {
    if (each.end > each.begin) intervals.push_back(each);
  }
  return intervals;
}

TEST(StandstillWatch, NoticesThatTimeWentByWithoutIt) {
  SteppedClock clock;
  const StandstillWatch watch(clock);
  EXPECT_TRUE(noticed(watch).empty());
  clock.time = 105;
  // Whether its thread has woken since or not.
  ASSERT_EQ(noticed(watch).size(), 1u);
  EXPECT_NEAR(noticed(watch)[0].begin, 100, 0.05);
  EXPECT_EQ(noticed(watch)[0].end, 105);
}

}  // namespace
}  // namespace penstock::accounting
