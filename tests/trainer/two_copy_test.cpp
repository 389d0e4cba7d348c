// Whole runs with two copies of the weights: the checkpoint holds one, goes on anywhere and comes back.
#include <gmock/gmock.h>

#include "parallel/planner/profile.h"
#include "tests/trainer/tiny_training.h"
#include "trainer/backend.h"
#include "trainer/copy_check.h"
#include "trainer/job_plan.h"
#include "trainer/run_profile.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Settings = std::vector<std::string>;

Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), {"batch.global=8", "evaluation.every_steps=3", "evaluation.batches=3"});
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

class TwoCopyTraining : public TrainingTest {
 protected:
  std::vector<nlohmann::json> evaluations(const std::string& name) const {
    std::vector<nlohmann::json> losses;
    std::ifstream in(run(name) / "events.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event["event"] == "evaluation") losses.push_back(event["loss"]);
    }
    return losses;
  }
};

const Settings& dualpipe() {
  static const Settings settings{"parallel.pipeline=2", "parallel.schedule=dualpipe"};
  return settings;
}

// Samples, losses and norms of each step, evaluations and every tensor: those of two replicas on one rank
// each.
TEST_F(TwoCopyTraining, GivesTheBitsOfTwiceTheReplicas) {
  ASSERT_EQ(train(job("flat", with({"parallel.data=2"}, {})), {}), ExitCode::finished);
  // And a file: the first copy computes micro-batches 0 and 1, as in the others.
  const fs::path file = root / "own.csv";
  std::ofstream(file) << "0F0,0F1,3F2,3B2,3F3,3B3,0B0,0B1\n2F2,2F3,1F0,1B0,1F1,1B1,2B2,2B3\n";
  const std::vector<Settings> pipelines{
      dualpipe(),
      {"parallel.pipeline=2", "parallel.schedule=chimera", "recompute.mode=full"},
      {"parallel.pipeline=2", "parallel.schedule=file:" + file.string(), "parallel.partition=layers"}};
  for (const Settings& pipeline : pipelines) {
    const std::string name = fmt::format("pipeline{}", &pipeline - pipelines.data());
    SCOPED_TRACE(pipeline[1]);
    ASSERT_EQ(train(job(name, with(pipeline, {})), {}), ExitCode::finished);
    expect_equal(open("flat", 6), open(name, 6));
    for (size_t step = 0; step < 6; ++step) {
      EXPECT_EQ(metrics(name)[step]["loss"], metrics("flat")[step]["loss"]) << step;
      EXPECT_EQ(metrics(name)[step]["grad_norm"], metrics("flat")[step]["grad_norm"]) << step;
      EXPECT_EQ(metrics(name)[step]["tokens"], metrics("flat")[step]["tokens"]) << step;
    }
    EXPECT_EQ(evaluations(name).size(), 2U);
  }
}

// Evaluations pass through one copy: with the same weights the loss is that of one rank, to the bit.
TEST_F(TwoCopyTraining, EvaluatesAsOneRankDoes) {
  const Settings still{"learning_rate.max=1e-30", "learning_rate.warmup_steps=0"};
  ASSERT_EQ(train(job("one", with(still, {})), {}), ExitCode::finished);
  ASSERT_EQ(train(job("two", with(still, dualpipe())), {}), ExitCode::finished);
  EXPECT_EQ(evaluations("one").size(), 2U);
  EXPECT_EQ(evaluations("one"), evaluations("two"));
  EXPECT_NEAR(metrics("one")[0]["loss"].get<double>(), metrics("two")[0]["loss"].get<double>(), 1e-12);
}

TEST_F(TwoCopyTraining, GoesOnAsAnythingAndBack) {
  const Settings decay{"learning_rate.decay_steps=6"};
  ASSERT_EQ(train(job("straight", with(decay, {"parallel.data=2"})), {}), ExitCode::finished);
  const std::vector<Settings> legs{
      {"run.steps=1", dualpipe()[0], dualpipe()[1]},
      {"run.steps=2", "parallel.data=2"},
      {"run.steps=3", dualpipe()[0], dualpipe()[1]},
      {"run.steps=4", "parallel.pipeline=2", "parallel.data=2", "parallel.schedule=zbv", "parallel.chunks=2"},
      {"run.steps=6", "parallel.pipeline=2", "parallel.schedule=chimera"}};
  for (const Settings& leg : legs)
    ASSERT_EQ(train(job("travelled", with(decay, leg)), {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("travelled", 6));
}

TEST_F(TwoCopyTraining, AStoppedRunGoesOnBitwise) {
  ASSERT_EQ(train(job("straight", with(dualpipe(), {"parallel.data=2", "batch.global=16"})), {}),
            ExitCode::finished);
  const Job stopping = job("stopped", with(dualpipe(), {"parallel.data=2", "batch.global=16"}));
  fs::create_directories(run("stopped") / "control");
  std::ofstream(run("stopped") / "control" / "stop").put('\n');
  ASSERT_EQ(train(stopping, {}), ExitCode::stopped);
  ASSERT_EQ(train(stopping, {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("stopped", 6));
}

// Before every save: a copy that a device has damaged is not trained on in silence.
TEST_F(TwoCopyTraining, CopiesThatDifferAreNamed) {
  const Job two = job("damaged", with(dualpipe(), {}));
  Backend planning = make_backend(two, 0);
  const runtime::PipelinePlan plan = runtime::plan_pipeline(planned_job(two, planning, nullptr).request);
  transport::run_inproc(2, {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    Backend backend = make_backend(two, world.rank());
    runtime::PipelineEngine engine(*backend.device, backend.math, world, plan);
    engine.rank().initialise(engine.stream());
    EXPECT_FALSE(differing_copies(engine, world));
    for (const model::Parameter& parameter : engine.rank().parameters().parameters()) {
      if (world.rank() == 1 && parameter.spec.name == "layers.1.mlp.up.weight")
        parameter.moment2.as<float>()[3] = 1;
    }
    const auto found = differing_copies(engine, world);
    ASSERT_TRUE(found);
    EXPECT_THAT(found->text,
                HasSubstr("unit mlp_1, layers.1.mlp.up.weight.moment2 is not the same on rank 1 "
                          "(replica 0) as on rank 0 (replica 0); first element 3: 1 on rank 1 and "
                          "0 on rank 0"));
  });
}

TEST_F(TwoCopyTraining, IsAccountedFor) {
  ASSERT_EQ(train(job("run", with(dualpipe(), {"run.steps=12", "recompute.mode=full"})), {}),
            ExitCode::finished);
  const auto lines = metrics("run");
  ASSERT_EQ(lines.size(), 12U);
  for (const nlohmann::json& line : lines) {
    ASSERT_EQ(line["ranks"].size(), 2U);
    EXPECT_GE(line["bubble_ratio"], 0);
    EXPECT_LT(line["bubble_ratio"], 1);
    for (const nlohmann::json& rank : line["ranks"]) EXPECT_GT(rank["recompute_ms"], 0);
  }
  EXPECT_GT(lines.back()["predicted_step_ms"], 0);
  // Its own costs: each rank computes half of the micro-batches in either of its stages.
  const RunProfile made = profile_from_run(run("run"));
  const planner::ModelCosts costs = planner::model_costs(made.profile, 2);
  ASSERT_EQ(costs.units.size(), 6U);
  double forward = 0;
  for (const planner::UnitCosts& unit : costs.units) forward += unit.in(planner::Recompute::full).forward;
  double measured = 0;
  for (const nlohmann::json& rank : lines.back()["ranks"]) measured += rank["forward_ms"].get<double>() / 1e3;
  EXPECT_GT(4 * forward, measured / 4);  // 4 micro-batches; steps differ, but not by a factor
  EXPECT_LT(4 * forward, measured * 4);
}

TEST_F(TwoCopyTraining, RefusesWhatItCannotDo) {
  const auto refusal = [&](const Settings& settings) -> std::string {
    try {
      job("refused", with(dualpipe(), settings));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({"parallel.reduce_every=2"}), HasSubstr("two copies of the weights once a step"));
  EXPECT_THAT(refusal({"bubble_budget.actions=[\"repartition\"]"}), HasSubstr("which are not rearranged"));
  EXPECT_EQ(refusal({}), "");
}

}  // namespace
}  // namespace penstock
