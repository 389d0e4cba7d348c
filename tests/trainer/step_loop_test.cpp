#include "trainer/step_loop.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

struct Recorder : Participant {
  Recorder(std::string label, std::vector<std::string>& journal) : name(std::move(label)), lines(journal) {}
  void wish(const StepSummary& result, Decision& wishes) override {
    lines.push_back(name + " wishes " + std::to_string(result.step));
    if (result.step == save_at) wishes.save = true;
    if (result.step == stop_at) {
      wishes.stop = true;
      wishes.code = ExitCode::stopped;
      wishes.reason = name;
    }
  }
  void act(const StepSummary& result, const Decision& decision) override {
    lines.push_back(name + (decision.save ? " saves " : " acts ") + std::to_string(result.step));
  }
  std::string name;
  std::vector<std::string>& lines;
  void rolled_back(int64_t step) override { lines.push_back(name + " is back at " + std::to_string(step)); }
  int64_t save_at = -1;
  int64_t stop_at = -1;
};

struct StepLoopTest : testing::Test {
  std::vector<std::string> journal;
  int64_t votes = 0;
  StepLoop loop;
  Recorder first{"first", journal};
  Recorder second{"second", journal};

  StepLoopTest() {
    loop.train_step = [](int64_t step, bool /*pauses*/) {
      StepSummary result;
      result.step = step + 1;
      return result;
    };
    loop.vote = [this](const Decision& wishes) {
      ++votes;
      return wishes;
    };
    loop.participants = {&first, &second};
  }
};

TEST_F(StepLoopTest, EveryoneWishesBeforeAnyoneActs) {
  const Decision decision = loop.run(4, 5);
  EXPECT_EQ(journal,
            (std::vector<std::string>{"first wishes 5", "second wishes 5", "first acts 5", "second acts 5"}));
  EXPECT_TRUE(decision.finished);
  EXPECT_FALSE(decision.stop);
  EXPECT_EQ(votes, 1);
}

TEST_F(StepLoopTest, AWishOfOneIsTheDecisionOfAll) {
  second.save_at = 2;
  loop.run(0, 3);
  EXPECT_EQ(std::count(journal.begin(), journal.end(), "first saves 2"), 1);
  EXPECT_EQ(std::count(journal.begin(), journal.end(), "first saves 3"), 0);
}

TEST_F(StepLoopTest, StopsAfterTheStepInWhichSomeoneAsked) {
  first.stop_at = 2;
  second.stop_at = 2;
  const Decision decision = loop.run(0, 10);
  EXPECT_EQ(votes, 2);
  EXPECT_TRUE(decision.stop);
  EXPECT_FALSE(decision.finished);
  EXPECT_EQ(decision.code, ExitCode::stopped);
  EXPECT_EQ(decision.reason, "first") << "the first to ask gives the reason";
}

TEST_F(StepLoopTest, StoppingAtTheLastStepIsStillFinished) {
  first.stop_at = 3;
  EXPECT_TRUE(loop.run(0, 3).finished);
}

TEST_F(StepLoopTest, AVoteOfOtherRanksCounts) {
  loop.vote = [](const Decision& wishes) {
    Decision all = wishes;
    all.stop = true;
    all.code = ExitCode::numerics;
    return all;
  };
  const Decision decision = loop.run(0, 10);
  EXPECT_TRUE(decision.stop);
  EXPECT_EQ(decision.code, ExitCode::numerics);
  EXPECT_EQ(journal.size(), 4u) << "one step";
}

TEST_F(StepLoopTest, ARunThatIsTakenBackGoesOnFromThere) {
  int rollbacks = 0;
  loop.vote = [&, steps = 0](const Decision& wishes) mutable {
    Decision all = wishes;
    all.rollback = ++steps == 3;
    return all;
  };
  loop.roll_back = [&](const StepSummary& result, Decision& /*decision*/) {
    ++rollbacks;
    EXPECT_EQ(result.step, 3);
    return int64_t{1};
  };
  EXPECT_TRUE(loop.run(0, 4).finished);
  EXPECT_EQ(rollbacks, 1);
  std::vector<std::string> steps;
  for (const std::string& line : journal) {
    if (line.rfind("first wishes", 0) == 0 || line.rfind("first is", 0) == 0) steps.push_back(line);
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"first wishes 1", "first wishes 2", "first wishes 3",
                                             "first is back at 1", "first wishes 2", "first wishes 3",
                                             "first wishes 4"}));
}

TEST_F(StepLoopTest, ARollbackMayTurnIntoAStopAndAStopGoesBeforeOne) {
  loop.vote = [](const Decision& wishes) {
    Decision all = wishes;
    all.rollback = true;
    return all;
  };
  loop.roll_back = [](const StepSummary& result, Decision& decision) {
    decision.stop = true;
    decision.code = ExitCode::numerics;
    return result.step;
  };
  const Decision decision = loop.run(0, 10);
  EXPECT_TRUE(decision.stop);
  EXPECT_EQ(decision.code, ExitCode::numerics);
  loop.roll_back = [](const StepSummary& result, Decision& /*decision*/) {
    ADD_FAILURE() << "stopped already";
    return result.step;
  };
  first.stop_at = 1;
  EXPECT_EQ(loop.run(0, 10).reason, "first");
}

TEST_F(StepLoopTest, NothingToDo) {
  const Decision decision = loop.run(5, 5);
  EXPECT_FALSE(decision.stop);
  EXPECT_TRUE(journal.empty());
}

}  // namespace
}  // namespace penstock
