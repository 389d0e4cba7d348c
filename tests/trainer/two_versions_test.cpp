// Whole runs of an asynchronous schedule: nothing but the weights' delay changes what they compute, and
// evaluations, checkpoints, stops and other ranks do not change the delay.
#include <stdexcept>

#include <gmock/gmock.h>

#include "tests/trainer/tiny_training.h"
#include "trainer/resume.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Settings = std::vector<std::string>;

Settings with(const Settings& settings, const Settings& more) {
  Settings all{"batch.global=8", "parallel.schedule=2bw", "learning_rate.decay_steps=9"};
  all.insert(all.end(), settings.begin(), settings.end());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const Settings two_ranks{"parallel.pipeline=2"};

class TwoVersionTraining : public TrainingTest {
 protected:
  void expect_told(const std::string& sharded) const;
  void expect_same_steps(const std::string& a, const std::string& b, size_t steps = 6) const {
    ASSERT_EQ(metrics(a).size(), steps);
    ASSERT_EQ(metrics(b).size(), steps);
    for (size_t step = 0; step < steps; ++step) {
      for (const char* key : {"step", "loss", "grad_norm", "learning_rate", "tokens"})
        EXPECT_EQ(metrics(a)[step][key], metrics(b)[step][key]) << key << " of line " << step;
    }
  }
};

// On one rank the pipeline is never filled; there the delay is all there is.
TEST_F(TwoVersionTraining, GivesTheSameBitsOnAnyRanks) {
  ASSERT_EQ(train(job("one", with({}, {})), {}), ExitCode::finished);
  const std::vector<Settings> pipelines{
      two_ranks,
      {"parallel.pipeline=2", "parallel.partition=[1,5]", "recompute.mode=full"},
      {"parallel.pipeline=4", "parallel.partition=layers", "recompute.mode=selective",
       "evaluation.every_steps=2"},
      {"parallel.pipeline=4", "parallel.partition=[1,2,1,2]", "checkpoint.every_steps=1"}};
  for (const Settings& pipeline : pipelines) {
    const std::string name = fmt::format("pipeline{}", &pipeline - pipelines.data());
    SCOPED_TRACE(name);
    ASSERT_EQ(train(job(name, with(pipeline, {})), {}), ExitCode::finished);
    expect_equal(open("one", 6), open(name, 6));
    expect_same_steps("one", name);
  }
  // Both versions are there, and are two.
  const checkpoint::Checkpoint last = open("one", 6);
  const std::string weight = "layers.1.mlp.up.weight";
  ASSERT_NE(last.find(weight + ".before"), nullptr);
  const auto elements = last.find(weight)->shape.elements();
  std::vector<float> now(static_cast<size_t>(elements));
  std::vector<float> before(now.size());
  last.read(weight, DType::fp32, 0, elements, now.data());
  last.read(weight + ".before", DType::fp32, 0, elements, before.data());
  EXPECT_NE(now, before);
}

TEST_F(TwoVersionTraining, Replicas) {
  const Settings replicas{"parallel.data=2", "batch.global=16"};
  ASSERT_EQ(train(job("flat", with(replicas, {})), {}), ExitCode::finished);
  ASSERT_EQ(train(job("deep", with(replicas, {"parallel.pipeline=2", "evaluation.every_steps=3"})), {}),
            ExitCode::finished);
  expect_equal(open("flat", 6), open("deep", 6));
  expect_same_steps("flat", "deep");
}

// Weights of several blocks.
const Settings blocks{"model.hidden_size=64", "batch.global=24", "batch.micro=1"};

TEST_F(TwoVersionTraining, ReplicasMayShareAnOptimizer) {
  for (const char* compute : {"precision.compute=fp32", "precision.compute=bf16"}) {
    Settings settings = blocks;
    for (const char* each : {"parallel.data=2", compute, "evaluation.every_steps=2", "evaluation.batches=2"})
      settings.emplace_back(each);
    const std::string whole = fmt::format("whole-{}", compute + 18);
    ASSERT_EQ(train(job(whole, with(settings, {})), {}), ExitCode::finished);
    for (const char* pipeline : {"parallel.pipeline=1", "parallel.pipeline=2"}) {
      const std::string name = fmt::format("sharded-{}-{}", compute + 18, pipeline + 18);
      ASSERT_EQ(train(job(name, with(settings, {pipeline, "parallel.sharded_optimizer=true"})), {}),
                ExitCode::finished);
      expect_equal(open(whole, 6), open(name, 6));
      expect_same_steps(whole, name);
      EXPECT_EQ(events(whole, "evaluation").size(), 3U);
    }
  }
}

// Between shards of two, three and four, and whole optimizers: each leg is the same whether its optimizer is
// sharded or not, both versions of the weights included.
TEST_F(TwoVersionTraining, GoesOnWithOtherShards) {
  const std::vector<Settings> legs{{"run.steps=1", "parallel.data=2"},
                                   {"run.steps=2", "parallel.data=3", "parallel.pipeline=2"},
                                   {"run.steps=4", "parallel.data=4"},
                                   {"run.steps=6", "parallel.data=2", "parallel.pipeline=2"}};
  const auto travel = [&](const std::string& name, const std::vector<bool>& sharded) {
    for (size_t leg = 0; leg < legs.size(); ++leg) {
      Settings settings = legs[leg];
      settings.insert(settings.end(), blocks.begin(), blocks.end());
      settings.push_back(fmt::format("parallel.sharded_optimizer={}", sharded[leg]));
      ASSERT_EQ(train(job(name, with({}, settings)), {}), ExitCode::finished);
    }
  };
  travel("whole", {false, false, false, false});
  travel("sharded", {true, true, true, true});
  travel("both", {false, true, false, true});
  expect_equal(open("whole", 6), open("sharded", 6));
  expect_equal(open("whole", 6), open("both", 6));
  EXPECT_EQ(open("sharded", 6).manifest().shards.size(), 4U);
}

TEST_F(TwoVersionTraining, AStoppedRunOfShardsGoesOnBitwise) {
  Settings settings = blocks;
  for (const char* each : {"parallel.pipeline=2", "parallel.data=2", "parallel.sharded_optimizer=true"})
    settings.emplace_back(each);
  ASSERT_EQ(train(job("straight", with(settings, {})), {}), ExitCode::finished);
  fs::create_directories(run("stopped") / "control");
  std::ofstream(run("stopped") / "control" / "stop").put('\n');
  ASSERT_EQ(train(job("stopped", with(settings, {})), {}), ExitCode::stopped);
  ASSERT_EQ(train(job("stopped", with(settings, {})), {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("stopped", 6));
}

TEST_F(TwoVersionTraining, GoesOnAsAnythingAndBack) {
  ASSERT_EQ(train(job("straight", with(two_ranks, {})), {}), ExitCode::finished);
  const std::vector<Settings> legs{{"run.steps=1", "parallel.pipeline=2"},
                                   {"run.steps=2", "parallel.pipeline=4"},
                                   {"run.steps=4"},
                                   {"run.steps=6", "parallel.pipeline=2", "recompute.mode=full"}};
  for (const Settings& leg : legs) ASSERT_EQ(train(job("travelled", with(leg, {})), {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("travelled", 6));
}

TEST_F(TwoVersionTraining, BfloatWeightsKeepTheirEarlierCopy) {
  const Settings narrow{"parallel.pipeline=2", "precision.compute=bf16"};
  ASSERT_EQ(train(job("straight", with(narrow, {})), {}), ExitCode::finished);
  ASSERT_EQ(train(job("stopped", with(narrow, {"run.steps=3"})), {}), ExitCode::finished);
  EXPECT_EQ(open("stopped", 3).find("layers.1.mlp.up.weight.before")->dtype, DType::bf16);
  ASSERT_EQ(train(job("stopped", with({"precision.compute=bf16"}, {})), {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("stopped", 6));
}

// A stop is asked for while two steps are under way: the run ends behind the second.
TEST_F(TwoVersionTraining, AStoppedRunGoesOnBitwise) {
  ASSERT_EQ(train(job("straight", with(two_ranks, {})), {}), ExitCode::finished);
  const Job stopping = job("stopped", with(two_ranks, {}));
  fs::create_directories(run("stopped") / "control");
  std::ofstream(run("stopped") / "control" / "stop").put('\n');
  ASSERT_EQ(train(stopping, {}), ExitCode::stopped);
  EXPECT_EQ(metrics("stopped").size(), 2U);
  ASSERT_EQ(train(stopping, {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("stopped", 6));
  expect_same_steps("straight", "stopped");
}

// Weights that are not finite: every rank leaves both steps out, which were begun before anybody knew.
TEST_F(TwoVersionTraining, StepsThatAreNotFiniteAreSkippedByAllRanks) {
  const Settings exploding{"parallel.pipeline=2", "learning_rate.max=1e38", "learning_rate.warmup_steps=0",
                           "numerics.on_nonfinite=skip", "optimizer.weight_decay=0"};
  ASSERT_EQ(train(job("two", with(exploding, {})), {}), ExitCode::finished);
  ASSERT_EQ(train(job("again", with(exploding, {"checkpoint.every_steps=1"})), {}), ExitCode::finished);
  EXPECT_GE(events("two", "nonfinite").size(), 2U);
  expect_same_model(open("two", 6), open("again", 6));
  Settings stopping = exploding;
  stopping[3] = "numerics.on_nonfinite=stop";
  ASSERT_EQ(train(job("stops", with(stopping, {})), {}), ExitCode::numerics);
}

// Lists of steps that overlap tile each rank's time: every list has an update and all of its actions, no part
// is negative, and nothing is left over.
TEST_F(TwoVersionTraining, TellsWhereTheTimeWent) {
  for (const char* sharded : {"false", "true"}) expect_told(sharded);
}

void TwoVersionTraining::expect_told(const std::string& sharded) const {
  SCOPED_TRACE(sharded);
  ASSERT_EQ(
      train(job("told" + sharded, with(two_ranks, {"parallel.data=2", "parallel.sharded_optimizer=" + sharded,
                                                   "batch.global=16", "evaluation.every_steps=3"})),
            {}),
      ExitCode::finished);
  const auto lines = metrics("told" + sharded);
  ASSERT_EQ(lines.size(), 6U);
  for (size_t step = 0; step < lines.size(); ++step) {
    SCOPED_TRACE(step + 1);
    EXPECT_EQ(lines[step]["fill_ms"] > 0, step % 3 == 0);   // behind an evaluation
    EXPECT_EQ(lines[step]["drain_ms"] > 0, step % 3 == 2);  // before one
    ASSERT_EQ(lines[step]["ranks"].size(), 4U);
    for (const auto& rank : lines[step]["ranks"]) {
      double parts = 0;
      for (const auto& [key, value] : rank.items()) {
        if (!key.ends_with("_ms") || key == "accounted_ms" || key == "root_ms") continue;
        EXPECT_GE(value, key == "unexplained_ms" ? -0.01 : 0.0) << key;
        parts += value.get<double>();
      }
      for (const char* part : {"forward_ms", "backward_input_ms", "backward_weight_ms"})
        EXPECT_GT(rank[part], 0);
      EXPECT_EQ(rank.contains("optimizer_ms"), step % 3 > 0);
      EXPECT_LT(rank.value("unexplained_ms", 0.0), 0.01 * parts + 0.01);
    }
  }
}

// From the tenth step on, of the run's own costs.
TEST_F(TwoVersionTraining, StepsArePredicted) {
  ASSERT_EQ(train(job("long", with(two_ranks, {"run.steps=12"})), {}), ExitCode::finished);
  const auto lines = metrics("long");
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_FALSE(lines[5].contains("predicted_step_ms"));
  EXPECT_GT(lines[10]["predicted_step_ms"], 0);
  ASSERT_EQ(events("long", "prediction").size(), 1U);
  EXPECT_LT(events("long", "prediction")[0]["predicted_bubble_ratio"], 0.5);
}

// The delay belongs to what a run computes: another one is asked for.
TEST_F(TwoVersionTraining, AnotherDelayIsAnotherRun) {
  ASSERT_EQ(train(job("run", with(two_ranks, {"run.steps=2"})), {}), ExitCode::finished);
  const Settings flushed{"batch.global=8", "learning_rate.decay_steps=9", "parallel.pipeline=2"};
  try {
    train(job("run", flushed), {});
    ADD_FAILURE() << "went on";
  } catch (const ResumeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("parallel.schedule"));
  }
  TrainOptions accepting;
  accepting.accept_changes = true;
  EXPECT_EQ(train(job("run", flushed), accepting), ExitCode::finished);
  EXPECT_EQ(open("run", 6).find("layers.1.mlp.up.weight.before"), nullptr);
  Settings longer = two_ranks;
  longer.push_back("run.steps=7");
  EXPECT_EQ(train(job("run", with(longer, {})), accepting), ExitCode::finished);
  EXPECT_NE(open("run", 7).find("layers.1.mlp.up.weight.before"), nullptr);
}

TEST_F(TwoVersionTraining, RefusesWhatItCannotDo) {
  const auto refusal = [&](const Settings& settings) -> std::string {
    try {
      job("refused", with(two_ranks, settings));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({"parallel.reduce_every=2"}), HasSubstr("none for partial sums"));
  EXPECT_THAT(refusal({"bubble_budget.actions=[\"repartition\"]"}), HasSubstr("two versions of the weights"));
  EXPECT_THAT(refusal({"batch.micro=8"}), HasSubstr("at least pipeline = 2 micro-batches"));
  for (const std::string key : {"compute", "p2p", "gradient_reduce"})
    EXPECT_THAT(refusal({"precision." + key + "=fp16"}), HasSubstr("precision." + key + ": schedule")) << key;
  for (const char* setting :
       {"numerics.on_nonfinite=rollback", "numerics.on_spike=skip", "numerics.on_spike=rollback",
        "numerics.replica_check_every_steps=2", "numerics.recompute_check_every_steps=2"})
    EXPECT_THAT(refusal({setting}), HasSubstr("begins a step before")) << setting;
  EXPECT_EQ(refusal({"precision.p2p=bf16"}), "");
  EXPECT_EQ(refusal({"parallel.data=2", "parallel.sharded_optimizer=true"}), "");
  EXPECT_EQ(refusal({}), "");
}

// Another step is under way when a host fails between two: it must end before its micro-batches go away.
TEST_F(TwoVersionTraining, AHostThatFailsWaitsForWhatIsUnderWay) {
  for (const bool computed : {false, true}) {
    TrainOptions options;
    options.at_step = [computed](const StepMoment& moment) {
      if (moment.rank == 1 && moment.step == 3 && moment.computed == computed)
        throw std::runtime_error("this host fails");
    };
    const Settings settings{"parallel.pipeline=2", "parallel.data=2", "parallel.sharded_optimizer=true"};
    try {
      train(job(computed ? "after" : "before", with(settings, {})), options);
      ADD_FAILURE() << "it went on";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("this host fails"));
    }
  }
}

}  // namespace
}  // namespace penstock
