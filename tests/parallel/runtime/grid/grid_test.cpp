// Contract C1 over its grid, ranks as threads: what every point trains is, bit by bit, what one rank trains
// (or its replicas without a pipeline), and likewise of schedules with two copies or versions of the weights.
// `Whole*` takes minutes and belongs to the full tests.
#include "tests/parallel/runtime/grid/grid.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/transport/tcp_world.h"
#include "parallel/schedule/catalogue.h"
#include "tests/kernels/transport/tcp_ranks.h"

namespace penstock::testing {
namespace {

bool any_layout(const GridLayout&) {
  return true;
}

References& references() {
  static References all(run_reference);
  return all;
}

bool few_ranks(const GridLayout& layout) {
  return layout.ranks() <= 4 && layout.replicas <= 2;
}

std::string point_name(const ::testing::TestParamInfo<Point>& point) {
  return name_of(point.param);
}

class Pairwise : public ::testing::TestWithParam<Point> {};

TEST_P(Pairwise, SameBits) {
  const Job job = job_of(GetParam(), 3);
  expect_same(train(job, training_of(job)), references().of(job));
}

const auto points_of = [](Kind kind, const Allowed& allowed) {
  return ::testing::ValuesIn(pairwise_points(kind, allowed));
};
INSTANTIATE_TEST_SUITE_P(Grid, Pairwise, points_of(Kind::one_copy, any_layout), point_name);
INSTANTIATE_TEST_SUITE_P(TwoCopies, Pairwise, points_of(Kind::two_copies, few_ranks), point_name);
INSTANTIATE_TEST_SUITE_P(TwoVersions, Pairwise, points_of(Kind::two_versions, few_ranks), point_name);
INSTANTIATE_TEST_SUITE_P(Wires, Pairwise, points_of(Kind::narrow_wires, few_ranks), point_name);
INSTANTIATE_TEST_SUITE_P(WholeTwoCopies, Pairwise, points_of(Kind::two_copies, any_layout), point_name);
INSTANTIATE_TEST_SUITE_P(WholeTwoVersions, Pairwise, points_of(Kind::two_versions, any_layout), point_name);
INSTANTIATE_TEST_SUITE_P(WholeWires, Pairwise, points_of(Kind::narrow_wires, any_layout), point_name);

/// Ranks of one process that meet as processes do.
class OverTcp : public ::testing::TestWithParam<Point> {};

TEST_P(OverTcp, SameBits) {
  Job job = job_of(GetParam(), 3);
  const Result& expected = references().of(job);
  job.over = [port = transport::free_port()](transport::World& hosts) {
    return transport::make_tcp_world({hosts.rank(), hosts.size(), "127.0.0.1", port, "grid"});
  };
  expect_same(train(job, training_of(job)), expected);
}

// Every schedule but those that differ in chunks alone, on the layouts in turn; what else differs too.
std::vector<Point> points_over_tcp() {
  std::vector<Point> points;
  for (const Kind kind : {Kind::one_copy, Kind::two_copies, Kind::two_versions, Kind::narrow_wires}) {
    std::map<std::string, int> taken;
    for (const Point& point : pairwise_points(kind, few_ranks)) {
      if (layout_of(point).ranks() == 1) continue;
      if (taken[schedule_of(point).name]++ < (kind == Kind::one_copy ? 1 : 3)) points.push_back(point);
    }
  }
  return points;
}

INSTANTIATE_TEST_SUITE_P(Grid, OverTcp, ::testing::ValuesIn(points_over_tcp()), point_name);
INSTANTIATE_TEST_SUITE_P(WholeTwoCopies, OverTcp, points_of(Kind::two_copies, any_layout), point_name);
INSTANTIATE_TEST_SUITE_P(WholeTwoVersions, OverTcp, points_of(Kind::two_versions, any_layout), point_name);

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
  EXPECT_EQ(ran, every_cut ? 72 : wanted.replicas > 1 ? 48 : 24);
}

INSTANTIATE_TEST_SUITE_P(Grid, Whole,
                         ::testing::Combine(::testing::ValuesIn(grid_values(Kind::one_copy)[Axis::schedule]),
                                            ::testing::ValuesIn(grid_values(Kind::one_copy)[Axis::layout])),
                         [](const auto& test) {
                           Point point{};
                           point[Axis::schedule] = std::get<0>(test.param);
                           point[Axis::layout] = std::get<1>(test.param);
                           const std::string name = name_of(point);
                           return name.substr(0, name.find("_gpt2"));
                         });

void expect_every_pair(Kind kind, const std::vector<Point>& points) {
  const auto values = grid_values(kind);
  for (size_t a = 0; a < Axis::count; ++a) {
    for (size_t b = a + 1; b < Axis::count; ++b) {
      std::set<std::pair<int, int>> met;
      for (const Point& point : points) met.emplace(point[a], point[b]);
      EXPECT_EQ(met.size(), values[a].size() * values[b].size()) << "axes " << a << " and " << b;
    }
  }
}

TEST(GridPoints, AnyTwoValuesMeet) {
  for (const Kind kind : {Kind::one_copy, Kind::two_copies, Kind::two_versions, Kind::narrow_wires})
    expect_every_pair(kind, pairwise_points(kind, any_layout));
  expect_every_pair(Kind::one_copy, all_points(any_layout, false));
  EXPECT_LT(pairwise_points(Kind::one_copy, any_layout).size(), 300U) << "these are run in every test";
}

TEST(GridPoints, EveryScheduleIsThere) {
  std::set<std::string> found;
  for (const Kind kind : {Kind::one_copy, Kind::two_copies, Kind::two_versions}) {
    const auto values = grid_values(kind);
    for (const int place : values[Axis::schedule])
      EXPECT_TRUE(found.insert(grid_schedules()[static_cast<size_t>(place)].name).second ||
                  kind == Kind::one_copy);
  }
  std::set<std::string> expected;
  for (const schedule::ScheduleKind& kind : schedule::schedule_kinds()) expected.insert(kind.name);
  EXPECT_EQ(found, expected);
  EXPECT_GE(found.size(), 14U);
}

TEST(GridPoints, HardShapesAreThere) {
  int more_ranks_than_layers = 0;
  int within_layers = 0;
  int uneven = 0;
  int fewer_micro_batches_than_ranks = 0;
  int stages_differ_in_recompute = 0;
  for (const Point& point : pairwise_points(Kind::one_copy, any_layout)) {
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
