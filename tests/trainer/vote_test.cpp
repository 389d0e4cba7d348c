#include "trainer/vote.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/transport/inproc/inproc_world.h"

namespace penstock {
namespace {

// Every rank's decision when rank r wishes wish(r).
std::vector<Decision> decide(int ranks, const std::function<Decision(int)>& wish) {
  std::vector<Decision> decisions(static_cast<size_t>(ranks));
  transport::run_inproc(ranks, {}, [&](transport::World& world) {
    decisions[static_cast<size_t>(world.rank())] = vote(world, wish(world.rank()));
  });
  return decisions;
}

TEST(Vote, NobodyWishesAnything) {
  for (const Decision& decision : decide(3, [](int) { return Decision{}; })) {
    EXPECT_FALSE(decision.save || decision.evaluate || decision.stop || decision.finished);
  }
}

TEST(Vote, RankZeroArrangesForAll) {
  for (const Decision& decision : decide(3, [](int rank) {
         Decision wish;
         if (rank == 0) wish.arrangement = "otherwise";
         wish.trace = rank == 0;
         return wish;
       })) {
    EXPECT_EQ(decision.arrangement, "otherwise");
    EXPECT_TRUE(decision.trace);
    EXPECT_TRUE(decision.pauses());
    EXPECT_FALSE(decision.save);
  }
}

TEST(Vote, AWishOfOneRankIsTheDecisionOfAll) {
  for (const Decision& decision : decide(4, [](int rank) {
         Decision wish;
         wish.save = rank == 2;
         wish.evaluate = rank == 3;
         return wish;
       })) {
    EXPECT_TRUE(decision.save);
    EXPECT_TRUE(decision.evaluate);
    EXPECT_FALSE(decision.stop);
  }
}

TEST(Vote, AfterAStepThatIsTakenBackNothingIsFinishedOrSaved) {
  for (const Decision& decision : decide(3, [](int rank) {
         Decision wish;
         wish.finished = wish.save = wish.evaluate = true;
         wish.rollback = rank == 1;
         return wish;
       })) {
    EXPECT_TRUE(decision.rollback);
    EXPECT_TRUE(decision.pauses());
    EXPECT_FALSE(decision.finished || decision.save || decision.evaluate);
  }
}

TEST(Vote, WhatOneRankCallsUnfitNobodySaves) {
  for (const Decision& decision : decide(3, [](int rank) {
         Decision wish;
         wish.finished = wish.save = true;
         wish.unfit = rank == 2;
         return wish;
       })) {
    EXPECT_TRUE(decision.unfit && decision.finished);
    EXPECT_FALSE(decision.save);
  }
}

TEST(Vote, TheLowestRankThatStopsGivesCodeAndReason) {
  for (const Decision& decision : decide(4, [](int rank) {
         Decision wish;
         wish.stop = rank >= 1 && rank != 2;
         wish.code = rank == 1 ? ExitCode::stopped : ExitCode::numerics;
         wish.reason = "rank " + std::to_string(rank);
         return wish;
       })) {
    EXPECT_TRUE(decision.stop);
    EXPECT_EQ(decision.code, ExitCode::stopped);
    EXPECT_EQ(decision.reason, "rank 1");
  }
}

TEST(Vote, OneRankDecidesAlone) {
  const auto decisions = decide(1, [](int) {
    Decision wish;
    wish.stop = true;
    wish.finished = true;
    wish.code = ExitCode::storage;
    wish.reason = "full";
    return wish;
  });
  EXPECT_EQ(decisions[0].code, ExitCode::storage);
  EXPECT_EQ(decisions[0].reason, "full");
  EXPECT_TRUE(decisions[0].finished);
}

}  // namespace
}  // namespace penstock
