#include "trainer/watchdog/roll_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::watchdog {
namespace {

using testing::HasSubstr;
using testing::Not;

Heartbeat beat(int rank, Phase phase = Phase::step, int64_t step = 18) {
  Heartbeat made;
  made.rank = rank;
  made.stage = rank;
  made.phase = phase;
  made.step = step;
  made.seconds = 41;
  return made;
}

Heartbeat waiting(int rank, int peer) {
  Heartbeat made = beat(rank);
  made.activity = {Activity::Kind::receives, "F", peer, 12, peer, 41};
  return made;
}

Heartbeat computing(int rank) {
  Heartbeat made = beat(rank);
  made.activity = {Activity::Kind::computes, "I", rank, 3, -1, 40};
  return made;
}

TEST(RollCall, SaysWhereARankIsAndWhereTheOneIsThatItWaitsFor) {
  RollCall calls(6);
  calls.heard(computing(4), 100);
  EXPECT_EQ(calls.where(waiting(5, 4), 100.8),
            "rank 5, stage 5, step 18: waits for F of micro-batch 12 from rank 4 for 41 s; rank 4 is in I of "
            "micro-batch 3 of stage 4 for 40 s; heard 0.8 s ago");
  EXPECT_THAT(calls.where(waiting(5, 3), 100.8), HasSubstr("; nothing was heard of rank 3"));
  EXPECT_EQ(calls.where(computing(4), 100.8),
            "rank 4, stage 4, step 18: is in I of micro-batch 3 of stage 4 for 40 s");
}

TEST(RollCall, BlamesTheOneThatAllOthersWaitFor) {
  RollCall calls(4);
  for (int rank = 1; rank < 4; ++rank) calls.heard(waiting(rank, rank - 1), 10);
  calls.heard(computing(0), 10);
  EXPECT_EQ(calls.culprit(11),
            "the others wait for rank 0, which is in I of micro-batch 3 of stage 0 for 40 s");
}

TEST(RollCall, SeesACircle) {
  RollCall calls(3);
  calls.heard(waiting(0, 2), 10);
  calls.heard(waiting(1, 0), 10);
  calls.heard(waiting(2, 1), 10);
  EXPECT_EQ(calls.culprit(11), "ranks wait for one another in a circle: 0 for 2 for 1, 0");
}

TEST(RollCall, BlamesTheSilentBeforeThoseWhoWait) {
  RollCall calls(3);
  calls.introduce(1, "process 17 on host b", 0);
  calls.heard(waiting(0, 1), 50);
  calls.heard(computing(1), 20);
  calls.heard(waiting(2, 1), 50);
  const std::string text = calls.culprit(50);
  EXPECT_THAT(text,
              HasSubstr("rank 1 (process 17 on host b) has not been heard of for 30 s: stopped (SIGSTOP"));
  EXPECT_THAT(text, Not(HasSubstr("rank 2")));
}

TEST(RollCall, BlamesTheGoneBeforeTheSilent) {
  RollCall calls(3);
  for (int rank = 0; rank < 3; ++rank) calls.heard(beat(rank), 10);
  calls.gone(2);
  const std::string text = calls.culprit(40);
  EXPECT_EQ(text.rfind("rank 2 is gone", 0), 0U) << text;
  EXPECT_THAT(calls.where(waiting(0, 2), 40), HasSubstr("; rank 2 is gone"));
  EXPECT_EQ(calls.lowest_living(11), 0);
  calls.heard(beat(1), 39);
  EXPECT_EQ(calls.lowest_living(40), 1) << "rank 0 is silent";
  calls.gone(0);
  EXPECT_THAT(calls.culprit(40), HasSubstr("rank 0, rank 2 are gone"));
  EXPECT_EQ(calls.lowest_living(40), 1);
}

TEST(RollCall, WhoHasSaidGoodByeIsMissedByNobody) {
  RollCall calls(2);
  calls.heard(beat(0), 100);
  calls.heard(beat(1), 10);
  calls.left(1);
  EXPECT_EQ(calls.culprit(100), "");
}

// The machine was suspended, or everything was stopped and went on: nobody else was silent.
TEST(RollCall, OwnStandstillsAreNobodysSilence) {
  RollCall calls(2);
  calls.heard(beat(0), 100);
  calls.heard(beat(1), 100);
  calls.stood_still(3600);
  EXPECT_EQ(calls.culprit(3701), "");
  EXPECT_DOUBLE_EQ(calls.silence(1, 3701).value(), 1);
}

TEST(RollCall, NamesRanksThatAreElsewhere) {
  RollCall calls(3);
  calls.heard(beat(0), 10);
  calls.heard(beat(1, Phase::evaluation), 10);
  calls.heard(beat(2), 10);
  EXPECT_EQ(
      calls.culprit(11),
      "the ranks are not at the same place: ranks 0, 2 in step (step 18); rank 1 in evaluation (step 18)");
}

TEST(RollCall, OldNewsDoesNotReplaceNew) {
  RollCall calls(2);
  calls.heard(beat(1, Phase::step, 20), 100);
  calls.heard(beat(1, Phase::step, 19), 101, 5);
  EXPECT_EQ(calls.last(1)->step, 20);
  EXPECT_DOUBLE_EQ(calls.silence(1, 102).value(), 2);
}

}  // namespace
}  // namespace penstock::watchdog
