// Contract C1 on the CUDA backend, over the fake runtime: what every point of the grid trains is, bit by bit,
// what one rank trains. Each point once among threads that share data by signals, once by NCCL, with few of
// its kernels at once.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "kernels/transport/nccl_world.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/nccl/faults.h"
#include "tests/parallel/runtime/grid/grid.h"

namespace penstock::testing {
namespace {

/// As a program does, before there are ranks.
const bool variables_are_set = [] {
  transport::set_nccl_variables({});
  return true;
}();

bool few_ranks(const GridLayout& layout) {
  return layout.ranks() <= 4;
}

References& references() {
  static References all([](const Job& reference) {
    fake_cuda::reset({.gpus = 1});
    return run_reference(reference);
  });
  return all;
}

class CudaGrid : public ::testing::TestWithParam<Point> {
 public:
  /// One of 1, 2 and 8, differing between points that differ.
  static int places(const Point& point) {
    int sum = 0;
    for (const int value : point) sum += value;
    constexpr std::array counts{1, 2, 8};
    return counts[static_cast<size_t>(sum) % counts.size()];
  }
  static void prepare(const Job& job, const Point& point, int gpus) {
    fake_cuda::reset({.gpus = gpus,
                      .communication_kernels = places(point),
                      .buffered = job.transport.buffered,
                      .shuffle_seed = job.mode == StreamMode::shuffled ? 11u : 0u});
  }
};

TEST_P(CudaGrid, SameBitsInproc) {
  Job job = job_of(GetParam(), 2);
  const Result& expected = references().of(job);
  prepare(job, GetParam(), GetParam()[Axis::cut] == 0 ? 1 : 4);  // evenly cut: all on one
  job.transport.buffered = false;                                // that is the processor's
  expect_same(train(job, training_of(job)), expected);
  EXPECT_EQ(fake_cuda::lost_because(), "");
}

TEST_P(CudaGrid, SameBitsByNccl) {
  Job job = job_of(GetParam(), 2);
  const Result& expected = references().of(job);
  fake_nccl::reset();
  prepare(job, GetParam(), 4);
  job.transport.buffered = false;
  job.over = [](transport::World& hosts) { return transport::make_nccl_world(hosts); };
  expect_same(train(job, training_of(job)), expected);
  EXPECT_EQ(fake_cuda::lost_because(), "");
  EXPECT_EQ(fake_nccl::communicators(), 0);
  EXPECT_EQ(fake_nccl::aborts(), 0);
}

/// Four schedules on up to four ranks; what else differs is dealt out.
std::vector<Point> quick_points() {
  constexpr std::array<std::string_view, 4> names{"1f1b", "interleaved", "zb-h1", "zbv"};
  std::vector<Point> points;
  const std::vector<int> layouts = grid_values(Kind::one_copy)[Axis::layout];
  for (const std::string_view name : names) {
    const auto& schedules = grid_schedules();
    int schedule = 0;
    while (schedules[static_cast<size_t>(schedule)].name != name) ++schedule;
    for (const int layout : layouts) {
      const GridLayout& ranks = grid_layouts()[static_cast<size_t>(layout)];
      if (!few_ranks(ranks) || ranks.replicas > 2) continue;
      const int number = static_cast<int>(points.size());
      Point point{};
      point[Axis::schedule] = schedule;
      point[Axis::layout] = layout;
      point[Axis::recompute] = number % 2 == 0 ? 0 : 2;  // none, full
      point[Axis::compute] = number / 2 % 2;
      point[Axis::family] = number / 3 % 2;
      point[Axis::cut] = number % 3;
      point[Axis::streams] = number / 4 % 2;
      point[Axis::buffering] = number / 5 % 2;
      point[Axis::windows] = number % 2;
      point[Axis::sharded] = ranks.replicas > 1 && number / 2 % 2 == 0 ? 1 : 0;
      points.push_back(point);
    }
  }
  // Of the other kinds the first ones of each schedule that have neighbours, and replicas.
  for (const auto& [kind, most] :
       {std::pair(Kind::two_copies, 1), {Kind::two_versions, 2}, {Kind::narrow_wires, 1}}) {
    std::map<std::string, int> taken;
    for (const Point& point : pairwise_points(kind, few_ranks)) {
      const GridLayout& ranks = layout_of(point);
      if (ranks.pipeline == 1 || (ranks.replicas == 1 && kind == Kind::narrow_wires)) continue;
      if (taken[schedule_of(point).name]++ < most) points.push_back(point);
    }
  }
  return points;
}

std::string point_name(const ::testing::TestParamInfo<Point>& point) {
  return name_of(point.param);
}

INSTANTIATE_TEST_SUITE_P(Quick, CudaGrid, ::testing::ValuesIn(quick_points()), point_name);

std::vector<Point> all_pairs() {
  std::vector<Point> points;
  for (const Kind kind : {Kind::one_copy, Kind::two_copies, Kind::two_versions, Kind::narrow_wires}) {
    const std::vector<Point> more = pairwise_points(kind, few_ranks);
    points.insert(points.end(), more.begin(), more.end());
  }
  // Kinds have points in common.
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

INSTANTIATE_TEST_SUITE_P(Pairwise, CudaGrid, ::testing::ValuesIn(all_pairs()), point_name);

}  // namespace
}  // namespace penstock::testing
