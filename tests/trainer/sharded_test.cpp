// Whole runs with a sharded optimizer: every bit is that of one that is not, and checkpoints go anywhere.
#include <algorithm>
#include <cmath>
#include <mutex>

#include <gmock/gmock.h>

#include "tests/trainer/tiny_training.h"
#include "trainer/backend.h"
#include "trainer/copy_check.h"
#include "trainer/job_plan.h"
#include "trainer/model_state.h"
#include "trainer/state_snapshot.h"

namespace penstock {
namespace {

using Settings = std::vector<std::string>;

class ShardedTraining : public TrainingTest {
 protected:
  // Weights of several blocks.
  Job run_of(const std::string& name, Settings settings) const {
    for (const char* common : {"model.hidden_size=64", "batch.global=12", "batch.micro=1",
                               "evaluation.every_steps=2", "evaluation.batches=2"})
      settings.emplace_back(common);
    return job(name, settings);
  }
  void expect_same_run(const std::string& a, const std::string& b) const {
    expect_equal(open(a, 6), open(b, 6));
    for (size_t step = 0; step < 6; ++step) {
      EXPECT_EQ(metrics(a)[step]["loss"], metrics(b)[step]["loss"]) << step;
      EXPECT_EQ(metrics(a)[step]["grad_norm"], metrics(b)[step]["grad_norm"]) << step;
    }
    EXPECT_EQ(losses(a).size(), 3U);
    EXPECT_EQ(losses(a), losses(b));
  }
  std::vector<nlohmann::json> losses(const std::string& name) const {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& event : events(name, "evaluation")) found.push_back(event["loss"]);
    return found;
  }
};

TEST_F(ShardedTraining, GivesTheBitsOfWholeOptimizers) {
  for (const char* replicas : {"2", "3"}) {
    const Settings data{fmt::format("parallel.data={}", replicas)};
    const std::string whole = fmt::format("whole{}", replicas);
    ASSERT_EQ(train(run_of(whole, data), {}), ExitCode::finished);
    const std::vector<Settings> others{
        {"parallel.pipeline=1"},
        {"parallel.pipeline=2", "parallel.schedule=zbv", "parallel.chunks=2", "recompute.mode=full"}};
    for (const Settings& other : others) {
      const std::string name = fmt::format("sharded{}-{}", replicas, &other - others.data());
      Settings settings{data[0], "parallel.sharded_optimizer=true"};
      settings.insert(settings.end(), other.begin(), other.end());
      ASSERT_EQ(train(run_of(name, settings), {}), ExitCode::finished);
      expect_same_run(whole, name);
    }
  }
}

TEST_F(ShardedTraining, TwoCopiesShareOneToo) {
  const Settings copies{"parallel.pipeline=2", "parallel.schedule=dualpipe"};
  ASSERT_EQ(train(run_of("whole", copies), {}), ExitCode::finished);
  ASSERT_EQ(train(run_of("sharded", {copies[0], copies[1], "parallel.sharded_optimizer=true"}), {}),
            ExitCode::finished);
  expect_same_run("whole", "sharded");
}

// Between shards of two, three and four, and whole optimizers, with pipelines and without; each leg is the
// same whether its optimizer is sharded or not.
TEST_F(ShardedTraining, GoesOnAsAnythingAndBack) {
  const std::vector<Settings> legs{{"run.steps=1", "parallel.data=2"},
                                   {"run.steps=2", "parallel.data=3", "parallel.pipeline=2"},
                                   {"run.steps=3", "parallel.data=4"},
                                   {"run.steps=4", "parallel.data=2", "parallel.pipeline=2"},
                                   {"run.steps=6", "parallel.data=3"}};
  const auto travel = [&](const std::string& name, const std::vector<bool>& sharded) {
    for (size_t leg = 0; leg < legs.size(); ++leg) {
      Settings settings = legs[leg];
      settings.emplace_back("learning_rate.decay_steps=6");
      settings.push_back(fmt::format("parallel.sharded_optimizer={}", sharded[leg]));
      ASSERT_EQ(train(run_of(name, settings), {}), ExitCode::finished);
    }
  };
  travel("whole", {false, false, false, false, false});
  travel("sharded", {true, true, true, true, true});
  travel("both", {true, false, true, false, true});
  expect_equal(open("whole", 6), open("sharded", 6));
  expect_equal(open("whole", 6), open("both", 6));
  // Each rank of the last leg wrote its own.
  EXPECT_EQ(open("sharded", 6).manifest().shards.size(), 3U);
  EXPECT_EQ(open("whole", 6).manifest().shards.size(), 1U);
}

TEST_F(ShardedTraining, AStoppedRunGoesOnBitwise) {
  const Settings settings{"parallel.data=2", "parallel.pipeline=2", "parallel.sharded_optimizer=true"};
  ASSERT_EQ(train(run_of("straight", settings), {}), ExitCode::finished);
  fs::create_directories(run("stopped") / "control");
  std::ofstream(run("stopped") / "control" / "stop").put('\n');
  ASSERT_EQ(train(run_of("stopped", settings), {}), ExitCode::stopped);
  ASSERT_EQ(train(run_of("stopped", settings), {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("stopped", 6));
}

// Calls body on each rank of the job, with an engine that was initialised.
template <class Body>
void on_ranks(const Job& job, const Body& body) {
  Backend planning = make_backend(job, 0);
  const runtime::PipelinePlan plan = runtime::plan_pipeline(planned_job(job, planning, nullptr).request);
  const auto ranks = static_cast<int>(job.parallel.pipeline * job.parallel.data);
  transport::run_inproc(ranks, {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    Backend backend = make_backend(job, world.rank());
    runtime::PipelineEngine engine(*backend.device, backend.math, world, plan);
    engine.rank().initialise(engine.stream());
    body(engine, world);
  });
}

// With two copies what kernels read is compared: of the rest there is one.
TEST_F(ShardedTraining, CopiesThatDifferAreNamed) {
  const Job two = run_of(
      "damaged", {"parallel.pipeline=2", "parallel.schedule=dualpipe", "parallel.sharded_optimizer=true"});
  on_ranks(two, [](runtime::PipelineEngine& engine, transport::World& world) {
    EXPECT_FALSE(differing_copies(engine, world));
    for (const model::Parameter& parameter : engine.rank().parameters().parameters()) {
      if (world.rank() == 1 && parameter.spec.name == "layers.1.mlp.up.weight")
        parameter.compute.as<float>()[3] = 1;
    }
    const auto difference = differing_copies(engine, world);
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->what, "layers.1.mlp.up.weight.compute");
    EXPECT_EQ(difference->element, 3);
  });
}

TEST_F(ShardedTraining, CopiesToBeSavedTakeWhatWasPlanned) {
  const Job three = run_of("saved", {"parallel.data=3", "parallel.sharded_optimizer=true"});
  std::mutex mutex;
  std::vector<size_t> bytes;
  size_t planned = 0;
  on_ranks(three, [&](runtime::PipelineEngine& engine, transport::World&) {
    const size_t mine = StateSnapshot::bytes(model_sources(engine.rank().parameters()));
    const std::lock_guard lock(mutex);
    bytes.push_back(mine);
    planned = snapshot_bytes(engine.rank().config());
  });
  ASSERT_EQ(bytes.size(), 3U);
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), planned);
}

// Stamps of gathers are there, and their seconds are accounted for.
TEST_F(ShardedTraining, IsAccountedFor) {
  ASSERT_EQ(
      train(run_of("run", {"parallel.data=2", "parallel.pipeline=2", "parallel.sharded_optimizer=true"}), {}),
      ExitCode::finished);
  const auto lines = metrics("run");
  ASSERT_EQ(lines.size(), 6U);
  for (const nlohmann::json& line : lines) {
    ASSERT_EQ(line["ranks"].size(), 4U);
    for (const nlohmann::json& rank : line["ranks"]) {
      // Parts that are 0 are left out.
      EXPECT_GT(rank.value("reduction_ms", 0.0), 0);
      EXPECT_LT(std::abs(rank.value("unexplained_ms", 0.0)), 0.01 * rank["accounted_ms"].get<double>());
    }
  }
}

}  // namespace
}  // namespace penstock
