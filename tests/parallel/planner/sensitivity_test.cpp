#include "parallel/planner/sensitivity.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/planner/stored_profile.h"

namespace penstock::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PlanRequest request_for(const char* name, int ranks, int micro_batches) {
  const Profile profile = stored_profile(name);
  PlanRequest request;
  request.machine = stored_machine(profile, ranks);
  request.workloads.push_back({model_costs(profile, 1), micro_batches});
  request.budget = {2e6, 1e4};
  return request;
}

std::vector<std::string> changes(const std::vector<Sensitivity>& rows) {
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const Sensitivity& row : rows) names.push_back(row.change);
  return names;
}

TEST(Sensitivity, OfOneForwardOneBackward) {
  PlanRequest request = request_for("uniform", 8, 16);
  request.schedule = "1f1b";
  request.slack = 0;
  request.machine.memory_limit = {60'000'000'000};
  const std::vector<Sensitivity> rows = sensitivities(request, make_plan(request));
  ASSERT_THAT(changes(rows), ElementsAre("one chunk more", "twice the micro-batches", "links twice as fast",
                                         "a quarter more memory", "a head a quarter lighter"));
  EXPECT_EQ(rows[0].chosen.chunks, 2);
  EXPECT_GT(rows[0].gain, 0.05);
  EXPECT_GT(rows[1].gain, 0.05);       // a third of the step is fill and drain
  EXPECT_NEAR(rows[2].gain, 0, 1e-9);  // links cost nothing here
  EXPECT_NEAR(rows[3].gain, 0, 1e-9);  // and memory is enough
  EXPECT_GT(rows[4].gain, 0);
}

// However little is searched: the plan itself is still there.
TEST(Sensitivity, NeverSaysThatMoreIsWorse) {
  PlanRequest request = request_for("all_links_slow", 8, 16);
  request.machine.memory_limit = {40'000'000'000};
  const Plan plan = make_plan(request);
  request.schedule = plan.chosen.schedule;
  request.chunks = plan.chosen.chunks;
  request.slack = plan.chosen.slack;
  request.budget = {1e3, 10};
  const std::vector<Sensitivity> rows = sensitivities(request, plan);
  for (size_t row = 2; row < rows.size(); ++row) {
    EXPECT_EQ(rows[row].refusal, "");
    EXPECT_GE(rows[row].gain, -1e-9) << rows[row].change;
  }
  EXPECT_GT(rows[2].gain, 0.01) << "links are what the plan waits for";
}

TEST(Sensitivity, OfWhatCannotBeHad) {
  PlanRequest request = request_for("few_layers", 8, 16);
  request.schedule = "1f1b";
  const std::vector<Sensitivity> rows = sensitivities(request, make_plan(request));
  EXPECT_THAT(rows[0].refusal, HasSubstr("16 stages of 8 units"));
}

TEST(Limits, NameTheLargestPartFirst) {
  PlanRequest request = request_for("large_vocabulary", 8, 64);
  request.schedule = "1f1b";
  request.cut = CutBy::layers;
  const std::vector<std::string> words = limits(request, make_plan(request));
  ASSERT_FALSE(words.empty());
  EXPECT_THAT(words[0], HasSubstr("rank 7 works 10"));
  request.cut = CutBy::measured;
  request.workloads[0].micro_batches = 4;
  EXPECT_THAT(limits(request, make_plan(request))[0], HasSubstr("1f1b fills, drains and waits"));
  request.machine.memory_limit = {1};
  EXPECT_THAT(limits(request, make_plan(request))[0], HasSubstr("no plan fits"));
}

}  // namespace
}  // namespace penstock::planner
