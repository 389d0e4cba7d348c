#include "trainer/job_costs.h"

#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/model_footprint.h"
#include "tests/trainer/small_job.h"
#include "trainer/job_profile.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using planner::Profile;
using planner::Recompute;
using planner::Timing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct JobCostsTest : ::testing::Test {
  fs::path root = fs::temp_directory_path() / fmt::format("penstock-costs-{}", getpid());

  JobCostsTest() {
    fs::remove_all(root);
    fs::create_directories(root / "p");
  }
  ~JobCostsTest() override { fs::remove_all(root); }

  Job job(const std::vector<std::string>& overrides = {}) const {
    return testing::small_job(root.string(), overrides);
  }

  // Every action of the i-th kind takes i + 1 milliseconds; attention's forward in all modes `forward`.
  static Profile profile_of(const Job& job, double forward = 2e-3) {
    Backend backend = make_backend(job, 0);
    const runtime::ProfileRequest request = profile_request(
        job, usual_micro_batches(job), {Recompute::none, Recompute::selective, Recompute::full});
    Profile profile = runtime::profile_skeleton(backend.math, request);
    profile.device = backend.device->description();
    describe(profile, job);
    double milliseconds = 0;
    for (planner::MeasuredUnit& unit : profile.units) {
      milliseconds += 1e-3;
      const Timing timing{milliseconds, 1e-6, 5};
      unit.optimizer_step = timing;
      for (planner::MeasuredSize& size : unit.sizes) {
        for (planner::MeasuredMode& mode : size.modes) {
          mode.forward = unit.kind == "attention" ? Timing{forward, 0, 5} : timing;
          mode.recompute = mode.mode == Recompute::none ? Timing{} : timing;
          mode.backward_input = timing;
          mode.backward_weight = timing;
        }
      }
    }
    return profile;
  }

  void write(const std::string& text) const { std::ofstream(root / "p" / "profile.json") << text; }
};

TEST_F(JobCostsTest, AreByFormulaWithoutAProfile) {
  Backend backend = make_backend(job(), 0);
  const JobCosts costs = job_costs(job(), backend, nullptr);
  EXPECT_FALSE(costs.measured);
  EXPECT_THAT(costs.note, AllOf(HasSubstr("by formula"), HasSubstr("no profile")));
  ASSERT_EQ(costs.model.units.size(), 6U);
  EXPECT_GT(costs.model.units[1].in(Recompute::none).forward, 0);
  // The same whatever this machine is doing.
  EXPECT_EQ(job_costs(job(), backend, nullptr).model, costs.model);
}

TEST_F(JobCostsTest, FollowTheDevicesRates) {
  Backend backend = make_backend(job(), 0);
  const runtime::DeviceRates rates = measured_rates(backend, DType::fp32);
  EXPECT_GT(rates.matmul_flops, 0);
  EXPECT_GT(rates.memory_bytes_per_second, 0);
  const runtime::DeviceRates half{rates.matmul_flops / 2, rates.memory_bytes_per_second / 2};
  const JobCosts fast = costs_by_formula(job(), backend, rates, "asked");
  const JobCosts slow = costs_by_formula(job(), backend, half, "asked");
  for (size_t unit = 0; unit < 6; ++unit) {
    EXPECT_DOUBLE_EQ(slow.model.units[unit].in(Recompute::none).backward_input,
                     2 * fast.model.units[unit].in(Recompute::none).backward_input);
  }
  EXPECT_THAT(fast.note, HasSubstr("asked"));
}

TEST_F(JobCostsTest, AreTheProfilesWhereItFits) {
  write(planner::write_profile(profile_of(job())));
  const Job asked = job({"parallel.data=2", "model.init_std=0.5", "model.dropout=0.3", "run.seed=9"});
  Backend backend = make_backend(asked, 0);
  const JobCosts costs = job_costs(asked, backend, nullptr);
  EXPECT_TRUE(costs.measured);
  EXPECT_THAT(costs.note, HasSubstr((root / "p" / "profile.json").string()));
  EXPECT_DOUBLE_EQ(costs.model.units[3].in(Recompute::none).forward, 2e-3);
  EXPECT_DOUBLE_EQ(costs.model.units[4].in(Recompute::full).recompute, 3e-3);
  EXPECT_DOUBLE_EQ(costs.model.units[5].optimizer_step, 4e-3);
  // Two replicas hold more than the profile's one did.
  const runtime::PipelineRequest request = pipeline_request(asked);
  const planner::ModelCosts counted =
      runtime::model_footprint(request.common, backend.math, reduction_of(request));
  EXPECT_EQ(costs.model.rank_bytes, counted.rank_bytes);
  EXPECT_EQ(costs.model.units[5].in(Recompute::none).forward_bytes,
            counted.units[5].in(Recompute::none).forward_bytes);
  EXPECT_EQ(costs.model.units[0].resident_bytes, counted.units[0].resident_bytes);
}

TEST_F(JobCostsTest, SayWhatDoesNotFit) {
  const Profile profile = profile_of(job());
  const auto misfit_of = [&](const std::vector<std::string>& overrides) {
    const Job asked = job(overrides);
    return misfit(profile, asked, *make_backend(asked, 0).device);
  };
  EXPECT_EQ(misfit_of({}), "");
  EXPECT_EQ(misfit_of({"model.norm_epsilon=0.01", "batch.global=16", "parallel.pipeline=2"}), "");
  EXPECT_THAT(misfit_of({"model.hidden_size=64"}),
              AllOf(HasSubstr("model.hidden_size: 32 was profiled, the job has 64"),
                    HasSubstr("model.ffn_hidden_size: 128"), Not(HasSubstr("layers"))));
  EXPECT_THAT(misfit_of({"model.layers=3"}), HasSubstr("model.layers: 2 was profiled, the job has 3"));
  EXPECT_THAT(misfit_of({"model.dropout=0.0"}), HasSubstr("model.dropout"));
  EXPECT_THAT(misfit_of({"model.vocab_size=61"}), HasSubstr("model.vocab_size"));
  EXPECT_THAT(misfit_of({"model.tie_embeddings=false"}),
              HasSubstr("model.tie_embeddings: true was profiled, the job has false"));
  EXPECT_THAT(misfit_of({"data.document_mask=true"}), HasSubstr("data.document_mask"));
  EXPECT_THAT(misfit_of({"precision.compute=bf16"}),
              HasSubstr("precision.compute: fp32 was profiled, the job has bf16"));
  EXPECT_THAT(misfit_of({"parallel.threads=2"}),
              AllOf(HasSubstr("parallel.threads: 1"), HasSubstr("device: ")));
}

TEST_F(JobCostsTest, OfAnotherJobAreNotTaken) {
  write(planner::write_profile(profile_of(job())));
  const Job other = job({"model.layers=3"});
  Backend backend = make_backend(other, 0);
  const JobCosts costs = job_costs(other, backend, nullptr);
  EXPECT_FALSE(costs.measured);
  EXPECT_THAT(costs.note, AllOf(HasSubstr("by formula"), HasSubstr("model.layers: 2 was profiled")));
  EXPECT_EQ(costs.model.units.size(), 8U);
  try {
    costs_from_profile(other, backend, (root / "p" / "profile.json").string());
    FAIL() << "a profile of another job was taken";
  } catch (const planner::ProfileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("profile.json"), HasSubstr("model.layers")));
  }
}

TEST_F(JobCostsTest, DamagedProfilesAreRefused) {
  const std::string good = planner::write_profile(profile_of(job()));
  Backend backend = make_backend(job(), 0);
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), good.substr(0, good.size() / 2)}) {
    write(text);
    try {
      job_costs(job(), backend, nullptr);
      ADD_FAILURE() << "a damaged profile was taken: " << text.substr(0, 20);
    } catch (const planner::ProfileError& error) {
      EXPECT_THAT(error.what(), HasSubstr((root / "p" / "profile.json").string()));
    }
  }
}

TEST_F(JobCostsTest, AreTheSameOnAllRanks) {
  write(planner::write_profile(profile_of(job())));
  const Job asked = job({"parallel.pipeline=3"});
  std::mutex mutex;
  std::vector<planner::ModelCosts> seen;
  transport::run_inproc(3, {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    Backend backend = make_backend(asked, world.rank());
    const JobCosts costs = job_costs(asked, backend, &world);
    const std::lock_guard lock(mutex);
    seen.push_back(costs.model);
    if (world.rank() == 0) fs::remove(root / "p" / "profile.json");  // the others never read it
  });
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[1], seen[0]);
  EXPECT_EQ(seen[2], seen[0]);
  EXPECT_DOUBLE_EQ(seen[0].units[1].in(Recompute::none).forward, 2e-3);
}

TEST_F(JobCostsTest, OfANamedProfileAreThoseOfItsDevice) {
  Profile profile = profile_of(job());
  profile.device = "another machine";
  profile.threads = 64;
  write(planner::write_profile(profile));
  const std::string path = (root / "p" / "profile.json").string();
  Backend backend = make_backend(job(), 0);
  EXPECT_FALSE(job_costs(job(), backend, nullptr).measured);
  const JobCosts costs = costs_from_profile(job(), backend, path);
  EXPECT_TRUE(costs.measured);
  EXPECT_THAT(costs.note, AllOf(HasSubstr("another machine"), HasSubstr(path)));
  EXPECT_DOUBLE_EQ(costs.model.units[3].in(Recompute::none).forward, 2e-3);
}

TEST_F(JobCostsTest, OnAClusterFollowItsRatesAndLinks) {
  Cluster cluster;
  cluster.cluster = {"test", 4, 2};
  cluster.device = {"device", 1, 1, 1, 2, 100, 0.5, 0.5, 1};
  cluster.inside_node = {1, 10};
  cluster.between_nodes = {8, 5};
  const Job asked = job({"parallel.pipeline=4", "parallel.data=2", "batch.global=16"});
  Backend backend = make_backend(asked, 0);
  const JobCosts costs = costs_on_cluster(asked, backend, cluster);
  const runtime::DeviceRates rates{0.5e12, 50e9};
  const JobCosts same = costs_by_formula(asked, backend, rates, "");
  EXPECT_EQ(costs.model.units[3].in(Recompute::none), same.model.units[3].in(Recompute::none));
  EXPECT_FALSE(costs.measured);
  EXPECT_THAT(costs.note, HasSubstr("rates of test"));
  // Pipelines lie side by side: ranks 0 and 1 share a node, 1 and 2 do not.
  ASSERT_EQ(costs.links.edges.size(), 16U);
  EXPECT_DOUBLE_EQ(costs.links.edges[0 * 4 + 1].bandwidth, 10e9);
  EXPECT_DOUBLE_EQ(costs.links.edges[1 * 4 + 2].bandwidth, 5e9);
  EXPECT_DOUBLE_EQ(costs.links.edges[1 * 4 + 2].latency, 8e-6);
  // Two replicas: half of the gradients out and half in, in two messages.
  EXPECT_DOUBLE_EQ(costs.links.reduction.latency, 16e-6);
  EXPECT_DOUBLE_EQ(costs.links.reduction.bandwidth, 5e9);
  // Two devices a rank are twice as fast, and state that is split is held once.
  cluster.device.devices_per_rank = 2;
  cluster.device.state_shards = 2;
  const JobCosts twice = costs_on_cluster(asked, backend, cluster);
  EXPECT_DOUBLE_EQ(twice.model.units[1].in(Recompute::none).forward,
                   costs.model.units[1].in(Recompute::none).forward / 2);
  EXPECT_EQ(twice.model.units[1].resident_bytes, (costs.model.units[1].resident_bytes + 1) / 2);
}

}  // namespace
}  // namespace penstock
