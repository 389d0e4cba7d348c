#include "parallel/runtime/profiler.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/link_profiler.h"
#include "parallel/runtime/model_footprint.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::runtime {
namespace {

using planner::MeasuredLink;
using planner::Profile;
using planner::Recompute;
using planner::Timing;

constexpr MeasuringEffort quick{1, 3, 0, 3};

ProfileRequest request_of(const ModelSection& section, int pipeline, int replicas) {
  ProfileRequest request;
  request.common = testing::make_job(section, pipeline, "1f1b").request.common;
  request.common.micro_batches = 2;
  request.topology = Topology(pipeline, replicas, RankOrder::pipeline_first);
  request.reduction.replicas = replicas;
  request.micro_batches = {1, 2, 4};
  request.modes = {Recompute::none, Recompute::selective, Recompute::full};
  request.effort = quick;
  return request;
}

struct Progress {
  int calls = 0;
  int last = 0;
  int total = 0;
};

// Rank 0's.
std::pair<Profile, Progress> measure(const ProfileRequest& request) {
  std::mutex mutex;
  std::pair<Profile, Progress> result;
  transport::run_inproc(request.topology.ranks(), {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    const auto device = cpu::make_cpu_device({});
    math::Math math = cpu::make_math(*device);
    Progress progress;
    Profile profile = measure_profile(*device, math, world, request, [&](int done, int total) {
      ++progress.calls;
      progress.last = done;
      progress.total = total;
    });
    for (int tag = 0; tag < arena_tag_count; ++tag)
      EXPECT_FALSE(device->has_arena(static_cast<ArenaTag>(tag))) << "an arena was not given back";
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) result = {std::move(profile), progress};
  });
  return result;
}

void expect_measured(const Timing& timing, const std::string& what) {
  EXPECT_GT(timing.median, 0) << what;
  EXPECT_GE(timing.spread, 0) << what;
  EXPECT_EQ(timing.samples, quick.repetitions) << what;
}

void expect_complete(const Profile& profile, const ProfileRequest& request) {
  const auto device = cpu::make_cpu_device({});
  math::Math math = cpu::make_math(*device);
  ASSERT_EQ(profile.units.size(), 4U);
  ASSERT_EQ(profile.shapes.size(), 3U);
  const std::vector<std::string> kinds{"embedding", "attention", "mlp", "head"};
  for (size_t size = 0; size < 3; ++size) {
    model::RankConfig common = request.common;
    common.micro_batch = request.micro_batches[size];
    common.micro_batches = 4 / common.micro_batch;
    const planner::ModelCosts counted = model_footprint(common, math, request.reduction);
    EXPECT_EQ(profile.shapes[size].micro_batch, common.micro_batch);
    EXPECT_EQ(profile.shapes[size].boundary_bytes, counted.boundary_bytes);
    EXPECT_EQ(profile.shapes[size].rank_bytes, counted.rank_bytes);
    for (size_t kind = 0; kind < 4; ++kind) {
      const planner::MeasuredUnit& unit = profile.units[kind];
      const planner::UnitCosts& expected =
          counted.units[kind < 3 ? kind : static_cast<size_t>(2 * request.common.model.layers + 1)];
      EXPECT_EQ(unit.kind, kinds[kind]);
      EXPECT_EQ(unit.resident_bytes, expected.resident_bytes);
      EXPECT_EQ(unit.gradient_bytes, expected.gradient_bytes);
      EXPECT_EQ(static_cast<double>(unit.parameters), expected.parameters);
      EXPECT_DOUBLE_EQ(unit.flops * static_cast<double>(common.micro_batch), expected.flops);
      expect_measured(unit.optimizer_step, unit.kind);
      const planner::MeasuredSize& at = unit.sizes[size];
      EXPECT_EQ(at.micro_batch, common.micro_batch);
      EXPECT_EQ(at.workspace_bytes, expected.workspace_bytes);
      EXPECT_EQ(at.side_band_bytes, expected.side_band_bytes);
      ASSERT_EQ(at.modes.size(), 3U);
      for (size_t mode = 0; mode < 3; ++mode) {
        const planner::MeasuredMode& measured = at.modes[mode];
        const planner::ModeCosts& bytes = expected.modes[mode];
        const std::string what = unit.kind + " in mode " + std::to_string(mode);
        EXPECT_EQ(measured.mode, request.modes[mode]);
        EXPECT_EQ(measured.forward_bytes, bytes.forward_bytes) << what;
        EXPECT_EQ(measured.kept_bytes, bytes.kept_bytes) << what;
        EXPECT_EQ(measured.weight_bytes, bytes.weight_bytes) << what;
        EXPECT_EQ(measured.transient_bytes, bytes.transient_bytes) << what;
        expect_measured(measured.forward, what);
        expect_measured(measured.backward_input, what);
        if (kind == 1 || kind == 2) {
          expect_measured(measured.backward_weight, what);
          if (mode > 0) expect_measured(measured.recompute, what);
        }
        if (mode == 0 || kind == 0 || kind == 3) {
          EXPECT_EQ(measured.recompute.median, 0) << what;
        }
      }
    }
  }
}

TEST(Profiler, MeasuresEverythingOnOneRank) {
  for (const ModelSection& section : {testing::tiny_gpt2(), testing::tiny_llama()}) {
    const ProfileRequest request = request_of(section, 1, 1);
    const auto [profile, progress] = measure(request);
    expect_complete(profile, request);
    EXPECT_EQ(profile.compute, "fp32");
    EXPECT_EQ(profile.threads, 1);
    EXPECT_FALSE(profile.device.empty());
    EXPECT_EQ(profile.tied_embeddings, section.tie_embeddings);
    EXPECT_TRUE(profile.links.empty());
    EXPECT_FALSE(profile.reduction);
    EXPECT_EQ(profile.traffic_slowdown, 0);
    EXPECT_EQ(progress.calls, 24);  // three sizes: embedding, head, and two kinds in three modes
    EXPECT_EQ(progress.last, progress.total);
    EXPECT_EQ(progress.last, progress.calls);
  }
}

TEST(Profiler, MeasuresLinksReductionAndTraffic) {
  ProfileRequest request = request_of(testing::tiny_gpt2(), 2, 2);
  request.common.document_mask = true;
  request.common.compute = DType::bf16;
  const auto [profile, progress] = measure(request);
  expect_complete(profile, request);
  EXPECT_EQ(profile.compute, "bf16");
  ASSERT_EQ(profile.links.size(), 2U);
  ASSERT_TRUE(profile.reduction);
  EXPECT_GT(profile.reduction->bandwidth.value_or(0), 0);
  EXPECT_GE(profile.reduction->latency, 0);
  EXPECT_GE(profile.traffic_slowdown, 0);
  EXPECT_EQ(progress.last, progress.total);
}

// Units are measured one at a time: all of this model would be more than 6 GiB.
TEST(Profiler, MeasuresModelsThatFitNoRank) {
  ModelSection section = testing::tiny_llama();
  section.layers = 600;
  section.hidden_size = 64;
  section.ffn_hidden_size = int64_t{1} << 12;
  ProfileRequest request = request_of(section, 1, 1);
  request.micro_batches = {2};
  request.modes = {Recompute::full};
  const auto device = cpu::make_cpu_device({});
  math::Math math = cpu::make_math(*device);
  int64_t whole = 0;
  for (const planner::UnitCosts& unit : model_footprint(request.common, math, {}).units)
    whole += unit.resident_bytes;
  EXPECT_GT(whole, int64_t{6} << 30);
  const Profile profile = measure(request).first;
  expect_measured(profile.units[2].sizes[0].modes[0].recompute, "mlp");
  EXPECT_LT(profile.units[2].resident_bytes, int64_t{16} << 20);
}

TEST(Profiler, RefusesSizesThatDoNotDivide) {
  ProfileRequest request = request_of(testing::tiny_gpt2(), 1, 1);
  request.micro_batches = {3};
  EXPECT_THROW(measure(request), UsageError);
}

TEST(LinkProfiler, MeasuresEveryEdgeOfTheRing) {
  for (const int ranks : {1, 2, 3, 4}) {
    transport::run_inproc(ranks, {}, [&](transport::World& world) {
      const transport::AbortOnUnwind abort(world);
      const auto device = cpu::make_cpu_device({});
      const auto pipeline = world.create("pipeline");
      const std::vector<MeasuredLink> links = measure_links(*device, world, *pipeline, 1000, 3);
      std::vector<std::pair<int64_t, int64_t>> edges;
      for (const MeasuredLink& link : links) {
        edges.emplace_back(link.from, link.to);
        EXPECT_GT(link.latency, 0);
        EXPECT_GT(link.bandwidth.value_or(0), 0);
        EXPECT_GT(link.bandwidth_alone, 0);
      }
      std::sort(edges.begin(), edges.end());
      std::vector<std::pair<int64_t, int64_t>> expected;
      for (int64_t from = 0; ranks > 1 && from < ranks; ++from) {
        for (const int64_t step : {1, ranks - 1}) {
          const std::pair<int64_t, int64_t> edge(from, (from + step) % ranks);
          if (std::find(expected.begin(), expected.end(), edge) == expected.end()) expected.push_back(edge);
        }
      }
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(edges, expected);
    });
  }
}

TEST(Timing, IsMedianAndQuartiles) {
  const Timing odd = timing_of({5, 1, 4, 2, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.spread, 2);
  EXPECT_EQ(odd.samples, 5);
  const Timing even = timing_of({4, 1, 3, 2});
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(even.spread, 1);
  EXPECT_EQ(timing_of({7}).spread, 0);
}

TEST(Profiler, ASlowRankHasItsPace) {
  const Topology three(3, 1, RankOrder::pipeline_first);
  EXPECT_TRUE(paces_of({1, 1.02, 0.97}, three).empty()) << "as alike as measurements are";
  const std::vector<double> paces = paces_of({2, 2, 3}, three);
  EXPECT_EQ(paces, (std::vector<double>{1, 1, 1.5}));
  // The slower of two replicas holds up the other.
  const Topology replicas(2, 2, RankOrder::pipeline_first);
  std::vector<double> seconds(4, 1);
  seconds[static_cast<size_t>(replicas.pipeline_of(1)[1])] = 2;
  EXPECT_EQ(paces_of(seconds, replicas), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace penstock::runtime
