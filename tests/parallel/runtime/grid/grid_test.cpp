// Contract C1 over its grid, ranks as threads: what every point trains is, bit by bit, what one rank trains
// (or its replicas without a pipeline). `Pairwise` is quick; `Whole` takes minutes and belongs to the full
// tests.
#include "tests/parallel/runtime/grid/grid.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/schedule/catalogue.h"

namespace penstock::testing {
namespace {

bool any_layout(const GridLayout&) {
  return true;
}

References& references() {
  static References all(run_reference);
  return all;
}

class Pairwise : public ::testing::TestWithParam<Point> {};

TEST_P(Pairwise, SameBits) {
  const Job job = job_of(GetParam(), 3);
  expect_same(train(job), references().of(job));
}

INSTANTIATE_TEST_SUITE_P(Grid, Pairwise, ::testing::ValuesIn(pairwise_points(any_layout)),
                         [](const auto& test) { return name_of(test.param); });

/// All points with one schedule and layout.
class Whole : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Whole, SameBitsAfterTwentySteps) {
  const auto [schedule, layout] = GetParam();
  const GridLayout& wanted = grid_layouts()[static_cast<size_t>(layout)];
  // More ranks meet what fewer did: their cuts are drawn, or this would take hours.
  const bool every_cut = wanted.ranks() <= 4 && wanted.replicas == 1;
  const auto points = all_points([&](const GridLayout& other) { return &other == &wanted; }, every_cut);
  int ran = 0;
  for (const Point& point : points) {
    if (point[Axis::schedule] != schedule) continue;
    SCOPED_TRACE(name_of(point));
    const Job job = job_of(point, 20);
    expect_same(train(job), references().of(job));
    ++ran;
  }
  EXPECT_EQ(ran, every_cut ? 48 : wanted.replicas > 1 ? 32 : 16);
}

INSTANTIATE_TEST_SUITE_P(Grid, Whole,
                         ::testing::Combine(::testing::Range(0, grid_sizes()[Axis::schedule]),
                                            ::testing::Range(0, grid_sizes()[Axis::layout])),
                         [](const auto& test) {
                           Point point{};
                           point[Axis::schedule] = std::get<0>(test.param);
                           point[Axis::layout] = std::get<1>(test.param);
                           const std::string name = name_of(point);
                           return name.substr(0, name.find("_gpt2"));
                         });

void expect_every_pair(const std::vector<Point>& points) {
  const Point& sizes = grid_sizes();
  for (size_t a = 0; a < Axis::count; ++a) {
    for (size_t b = a + 1; b < Axis::count; ++b) {
      std::set<std::pair<int, int>> met;
      for (const Point& point : points) met.emplace(point[a], point[b]);
      EXPECT_EQ(met.size(), static_cast<size_t>(sizes[a] * sizes[b])) << "axes " << a << " and " << b;
    }
  }
}

TEST(GridPoints, AnyTwoValuesMeet) {
  const auto pairwise = pairwise_points(any_layout);
  expect_every_pair(pairwise);
  expect_every_pair(all_points(any_layout, false));
  EXPECT_LT(pairwise.size(), 300U) << "these are run in every test";
}

TEST(GridPoints, EverySynchronousScheduleWithOneCopyIsThere) {
  std::set<std::string> found;
  for (const GridSchedule& schedule : grid_schedules()) found.insert(schedule.name);
  std::set<std::string> expected;
  for (const schedule::ScheduleKind& kind : schedule::schedule_kinds())
    if (kind.copies == 1 && kind.versions == 1) expected.insert(kind.name);
  EXPECT_EQ(found, expected);
  EXPECT_GE(found.size(), 11U);
}

TEST(GridPoints, HardShapesAreThere) {
  int more_ranks_than_layers = 0;
  int within_layers = 0;
  int uneven = 0;
  int fewer_micro_batches_than_ranks = 0;
  int stages_differ_in_recompute = 0;
  for (const Point& point : pairwise_points(any_layout)) {
    const Job job = job_of(point, 1);
    const runtime::PipelinePlan plan = runtime::plan_pipeline(job.request);
    const auto& model = job.request.common.model;
    more_ranks_than_layers += job.request.parallel.pipeline > model.layers ? 1 : 0;
    fewer_micro_batches_than_ranks +=
        job.request.common.micro_batches < job.request.parallel.pipeline ? 1 : 0;
    // Units: embedding, then attention and mlp in turn: an even first unit is an mlp (but for the head's).
    for (int stage = 1; stage <= plan.last_stage(); ++stage) {
      const int first = plan.first_unit(stage);
      within_layers += first % 2 == 0 ? 1 : 0;
    }
    uneven += std::set<int>(plan.units.begin(), plan.units.end()).size() > 2 ? 1 : 0;
    const auto& modes = job.request.recompute.stages;
    stages_differ_in_recompute += std::set(modes.begin(), modes.end()).size() == 3 ? 1 : 0;
  }
  EXPECT_GE(more_ranks_than_layers, 10);
  EXPECT_GE(within_layers, 50);
  EXPECT_GE(uneven, 10);
  EXPECT_GE(fewer_micro_batches_than_ranks, 10);
  EXPECT_GE(stages_differ_in_recompute, 10);
}

}  // namespace
}  // namespace penstock::testing
