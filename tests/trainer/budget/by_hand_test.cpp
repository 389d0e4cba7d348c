// What people ask for, what outlives an interruption, and a controller that thinks beside the training.
#include "trainer/budget/by_hand.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/budget/small_case.h"
#include "trainer/budget/background_controller.h"

namespace penstock::budget {
namespace {

using State = Controller::State;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t window = 20;

Truth slow_rank() {
  Truth truth = small_truth();
  truth.disturbances = {runtime::read_disturbance("step 1.. rank 1 slower 40%")};
  truth.noise = {0.02, 0.005, 0, 1};
  return truth;
}

std::string refusal(Controller& controller, const std::string& request) {
  const Arrangement before = controller.running();
  const Verdict verdict = controller.by_hand(request, 7);
  EXPECT_EQ(verdict.command, Verdict::Command::go_on) << request;
  EXPECT_EQ(controller.running(), before);
  EXPECT_EQ(verdict.events.size(), 1U);
  EXPECT_EQ(verdict.events.at(0).name, "budget_refused");
  EXPECT_EQ(verdict.events.at(0).step, 7);
  return verdict.events.at(0).details.at("why").get<std::string>();
}

Arrangement done(Controller& controller, const std::string& request) {
  const Verdict verdict = controller.by_hand(request, 7);
  EXPECT_EQ(verdict.command, Verdict::Command::apply) << request << ": " << verdict.events.at(0).text;
  EXPECT_EQ(verdict.events.at(0).name, "budget_by_hand");
  EXPECT_EQ(controller.state(), State::cool_down);
  return verdict.arrangement.value();
}

TEST(ByHand, ValuesAreTaken) {
  Controller controller(small_options(small_truth(), {}));
  EXPECT_THAT(done(controller, "repartition 5 7 6 6").layout.units, ElementsAre(5, 7, 6, 6));
  EXPECT_THAT(done(controller, "recompute full").layout.recompute, testing::Each(planner::Recompute::full));
  EXPECT_EQ(done(controller, "recompute none full selective none").layout.recompute[2],
            planner::Recompute::selective);
  EXPECT_EQ(done(controller, "warmup_slack 2").slack, 2);
  const Arrangement vee = done(controller, "schedule zbv");
  EXPECT_EQ(vee.schedule, "zbv");
  EXPECT_EQ(vee.layout.units.size(), 8U);
  EXPECT_EQ(done(controller, "schedule interleaved 3").layout.units.size(), 12U);
  EXPECT_EQ(done(controller, "chunks 2").layout.units.size(), 8U);
  EXPECT_EQ(controller.running().schedule, "interleaved");
  EXPECT_EQ(done(controller, "revert").chunks, 3);
  EXPECT_EQ(done(controller, "conservative"), small_options(small_truth(), {}).first);
}

TEST(ByHand, WhatIsWrongIsNamed) {
  Controller controller(small_options(small_truth(), {}));
  EXPECT_THAT(refusal(controller, "  "), HasSubstr("repartition, recompute"));
  EXPECT_THAT(refusal(controller, "reparition"), AllOf(HasSubstr("\"reparition\""), HasSubstr("or revert")));
  EXPECT_THAT(refusal(controller, "micro_batch 4"), HasSubstr("does not allow it"));
  EXPECT_THAT(refusal(controller, "revert"), HasSubstr("nothing was changed yet"));
  EXPECT_THAT(refusal(controller, "revert now"), HasSubstr("\"now\""));
  EXPECT_THAT(refusal(controller, "repartition 12 12"), HasSubstr("2 numbers of units for 4 stages"));
  EXPECT_THAT(refusal(controller, "repartition 6 6 6 7"), HasSubstr("24 in all"));
  EXPECT_THAT(refusal(controller, "repartition 6 6 6 x"), HasSubstr("\"x\""));
  EXPECT_THAT(refusal(controller, "repartition 6 6 6 6"), HasSubstr("it runs so already"));
  EXPECT_THAT(refusal(controller, "recompute some"), HasSubstr("\"some\""));
  EXPECT_THAT(refusal(controller, "recompute full full"), HasSubstr("2 modes for 4 stages"));
  EXPECT_THAT(refusal(controller, "schedule warp"), HasSubstr("warp"));
  EXPECT_THAT(refusal(controller, "schedule dualpipe"), HasSubstr("two copies"));
  EXPECT_THAT(refusal(controller, "chunks 2 3"), HasSubstr("\"3\" is too much"));
  EXPECT_THAT(refusal(controller, "conservative 3"), HasSubstr("\"3\" is too much"));
  controller.limit_memory({10});
  EXPECT_THAT(refusal(controller, "repartition 7 5 6 6"),
              AllOf(HasSubstr("rank 0"), HasSubstr("and has 10")));
}

TEST(ByHand, MicroBatchesOfKnownSizes) {
  Controller controller(small_options(small_truth(3), {}));
  EXPECT_EQ(done(controller, "micro_batch 4").workload, 2U);
  EXPECT_EQ(done(controller, "repartition 5 7 6 6").workload, 2U);
  EXPECT_EQ(done(controller, "micro_batch 1").workload, 0U);
  EXPECT_THAT(refusal(controller, "micro_batch 3"), HasSubstr("1, 2, 4 may be taken"));
}

TEST(ByHand, WithoutValuesThePlannerChoosesByWhatWasMeasured) {
  const Truth truth = slow_rank();
  Controller controller(small_options(truth, {}));
  DrawnPipeline pipeline(controller.running(), truth);
  for (int64_t step = 1; step <= 4 * window; ++step) controller.observe(pipeline.draw(step));
  EXPECT_LT(done(controller, "repartition").layout.units[1], 6);
}

TEST(ByHand, WhatCannotBeCarriedOutRunsOnAsBefore) {
  Controller controller(small_options(small_truth(), {}));
  const Arrangement first = controller.running();
  done(controller, "schedule zbv");
  const std::vector<BudgetEvent> events = controller.refused(8, "rank 3 has no room");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_THAT(events[0].text,
              AllOf(HasSubstr("rank 3 has no room"), HasSubstr("1f1b, units 6 6 6 6 runs on")));
  EXPECT_EQ(controller.running(), first);
}

// Up to the first trial.
struct UnderTrial {
  Truth truth = slow_rank();
  Controller controller{small_options(truth, {BudgetAction::repartition})};
  Arrangement first = controller.running();
  Arrangement tried;
  int64_t step = 0;

  UnderTrial() {
    DrawnPipeline pipeline(first, truth);
    while (controller.state() != State::trial && step < 20 * window)
      controller.observe(pipeline.draw(++step));
    EXPECT_EQ(controller.state(), State::trial);
    tried = controller.running();
  }
};

TEST(ByHand, RevertEndsATrial) {
  UnderTrial run;
  const Verdict verdict = run.controller.by_hand("revert", run.step);
  EXPECT_EQ(verdict.command, Verdict::Command::roll_back);
  EXPECT_EQ(verdict.arrangement, run.first);
  EXPECT_EQ(verdict.events.at(0).name, "budget_rolled_back");
  EXPECT_THAT(verdict.events.at(0).text, HasSubstr("by hand"));
}

TEST(ByHand, AnotherRequestTakesTheTrialsPlace) {
  UnderTrial run;
  EXPECT_THAT(done(run.controller, "repartition 9 3 6 6").layout.units, ElementsAre(9, 3, 6, 6));
  EXPECT_EQ(done(run.controller, "revert"), run.first);
}

TEST(Saved, NothingWasChanged) {
  EXPECT_TRUE(Controller(small_options(small_truth(), {})).saved().is_null());
}

TEST(Saved, ATrialEndsWithTheRun) {
  UnderTrial run;
  EXPECT_TRUE(run.controller.saved().is_null()) << "nothing was settled yet";
}

// Every entry is needed: without it the run would go on otherwise.
TEST(Saved, WhatWasKeptAndWhatFailedIsKnownAgain) {
  UnderTrial run;
  DrawnPipeline pipeline(run.tried, run.truth);
  while (run.controller.state() == State::trial) run.controller.observe(pipeline.draw(++run.step));
  ASSERT_EQ(run.controller.running(), run.tried);
  const nlohmann::json saved = nlohmann::json::parse(run.controller.saved().dump());
  EXPECT_EQ(Controller::settled(saved, run.first), run.tried);
  EXPECT_EQ(Controller::settled(saved, run.tried), std::nullopt) << "of a run that began otherwise";

  const ControllerOptions options = small_options(run.truth, {BudgetAction::repartition});
  Controller again(options);
  ASSERT_TRUE(again.restore(saved));
  EXPECT_EQ(again.running(), run.tried);
  EXPECT_EQ(again.state(), State::warm_up);
  EXPECT_EQ(again.saved(), saved);
  EXPECT_EQ(done(again, "revert"), run.first);

  for (const char* entry : {"arrangement", "left", "previous"}) {
    nlohmann::json changed = saved;
    if (std::string(entry) == "arrangement") changed[entry] = saved["first"];
    if (std::string(entry) == "left") changed[entry] = nlohmann::json::array();
    if (std::string(entry) == "previous") changed.erase(entry);
    Controller other(options);
    ASSERT_TRUE(other.restore(changed));
    EXPECT_NE(other.saved(), saved) << entry;
  }
}

TEST(BackgroundController, DecidesAsTheControllerDoes) {
  const Truth truth = slow_rank();
  const ControllerOptions options = small_options(truth, {BudgetAction::repartition});
  BackgroundController controller(options, nullptr);
  auto pipeline = std::make_unique<DrawnPipeline>(options.first, truth);
  std::vector<std::string> names;
  Arrangement running = options.first;
  for (int64_t step = 1; step <= 6 * window; ++step) {
    controller.observe(pipeline->draw(step));
    controller.wait();
    BackgroundController::News news = controller.news();
    for (const BudgetEvent& event : news.events) names.push_back(event.name);
    if (!news.arrangement) continue;
    EXPECT_EQ(step, 4 * window);
    // Steps that ran before it was carried out are of the old arrangement.
    for (int more = 0; more < 3; ++more) controller.observe(pipeline->draw(++step));
    running = *news.arrangement;
    pipeline = std::make_unique<DrawnPipeline>(running, truth);
    controller.carried_out({});
  }
  EXPECT_THAT(names, ElementsAre("budget_alarm", "budget_decision", "budget_kept"));
  EXPECT_EQ(arrangement_from(controller.saved().at("arrangement")), running);
}

TEST(BackgroundController, RequestsWaitForTheOneBeforeThem) {
  BackgroundController controller(small_options(small_truth(), {}), nullptr);
  controller.by_hand("repartition 5 7 6 6", 1);
  controller.by_hand("recompute full", 2);
  controller.wait();
  BackgroundController::News news = controller.news();
  ASSERT_TRUE(news.arrangement);
  EXPECT_THAT(news.arrangement->layout.units, ElementsAre(5, 7, 6, 6));
  EXPECT_EQ(news.arrangement->layout.recompute[0], planner::Recompute::none);
  EXPECT_EQ(controller.refused(3, "no room").at(0).name, "budget_refused");
  controller.wait();
  news = controller.news();
  ASSERT_TRUE(news.arrangement);
  EXPECT_THAT(news.arrangement->layout.units, ElementsAre(6, 6, 6, 6));
  EXPECT_EQ(news.arrangement->layout.recompute[0], planner::Recompute::full);
  controller.carried_out({});
  EXPECT_FALSE(controller.news().arrangement);
}

}  // namespace
}  // namespace penstock::budget
