// Bits that flip while a step is computed: found by computing it again, and named.
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/tiny_training.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Settings = std::vector<std::string>;

constexpr const char* middle = "layers.0.mlp.up.weight";

void flip_bit(float& value, int bit) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits ^= uint32_t{1} << bit;
  std::memcpy(&value, &bits, sizeof bits);
}

class RecomputeCheckTest : public TrainingTest {
 protected:
  Job checked(const std::string& name, const Settings& more, int every = 3) const {
    Settings settings{fmt::format("numerics.recompute_check_every_steps={}", every)};
    settings.insert(settings.end(), more.begin(), more.end());
    return job(name, settings);
  }

  using Flip = std::function<void(const model::Parameter&, const StepMoment&)>;
  // In step 3, for the parameter of that name, wherever it is.
  static TrainOptions flipping(const std::string& parameter, const Flip& flip) {
    TrainOptions options;
    options.at_step = [parameter, flip](const StepMoment& moment) {
      if (moment.step != 2) return;
      for (const model::Parameter& each : moment.engine.rank().parameters().parameters()) {
        if (each.spec.name == parameter && !each.shared) flip(each, moment);
      }
    };
    return options;
  }

  nlohmann::json found(const std::string& name) const {
    const auto seen = events(name, "recomputation_differs");
    EXPECT_EQ(seen.size(), 1u);
    return seen.empty() ? nlohmann::json::object() : seen[0];
  }
};

// Computing again changes nothing.
TEST_F(RecomputeCheckTest, ASoundRunIsTheSameToTheBit) {
  for (const Settings& topology :
       {Settings{}, {"parallel.pipeline=2", "parallel.schedule=zb-h1"}, {"parallel.data=2"}}) {
    const std::string name = topology.empty() ? "alone" : topology.front();
    Settings plain = topology;
    plain.emplace_back("run.steps=4");
    ASSERT_EQ(train(job(name, plain), {}), ExitCode::finished);
    ASSERT_EQ(train(checked(name + "-checked", plain, 1), {}), ExitCode::finished);
    expect_equal(open(name, 4), open(name + "-checked", 4));
    EXPECT_TRUE(events(name + "-checked", "recomputation_differs").empty());
    for (size_t step = 0; step < 4; ++step) {
      EXPECT_EQ(metrics(name)[step]["loss"], metrics(name + "-checked")[step]["loss"]);
      EXPECT_EQ(metrics(name)[step]["grad_norm"], metrics(name + "-checked")[step]["grad_norm"]);
    }
  }
}

// The lowest bit of one gradient: no loss and hardly a norm shows it.
TEST_F(RecomputeCheckTest, AFlippedBitOfAGradientIsNamedByItsUnit) {
  for (const char* topology : {"parallel.pipeline=1", "parallel.pipeline=2"}) {
    for (const int computation : {0, 1}) {
      const std::string name = fmt::format("{}-{}", topology, computation);
      const auto flip = [computation](const model::Parameter& parameter, const StepMoment& moment) {
        if (moment.computed && moment.computation == computation)
          flip_bit(parameter.gradient.as<float>()[5], 0);
      };
      ASSERT_EQ(train(checked(name, {topology, "checkpoint.every_steps=1"}), flipping(middle, flip)),
                ExitCode::numerics);
      const nlohmann::json event = found(name);
      EXPECT_EQ(event["step"], 3);
      EXPECT_EQ(event["direction"], "backward");
      EXPECT_EQ(event["unit"], "mlp_0");
      EXPECT_EQ(event["stage"], 0);
      EXPECT_EQ(event["ranks"], nlohmann::json({0}));
      EXPECT_EQ(event["wrong_computation"], computation + 1);
      const std::string reason = nlohmann::json::parse(std::ifstream(run(name) / "status.json"))["reason"];
      EXPECT_THAT(reason, HasSubstr("the gradient of unit mlp_0 differs, of stage 0 (rank 0)"));
      EXPECT_THAT(reason, HasSubstr(computation == 0 ? "the first was wrong" : "the second was wrong"));
      // Nothing of it is applied or saved.
      EXPECT_FALSE(fs::exists(run(name) / "checkpoints" / "step-00000003"));
      EXPECT_EQ(metrics(name).size(), 3u);
    }
  }
}

TEST_F(RecomputeCheckTest, AFlippedBitOfAForwardIsNamedByItsMicroBatchAndReplica) {
  const auto flip = [](const model::Parameter& parameter, const StepMoment& moment) {
    // Before and after: while the second replica computes for the second time, a weight is another one.
    if (moment.computation == 1 && moment.engine.place().replica == 1)
      flip_bit(parameter.master.as<float>()[7], 20);
  };
  ASSERT_EQ(train(checked("run", {"parallel.pipeline=2", "parallel.data=2", "batch.global=8"}),
                  flipping(middle, flip)),
            ExitCode::numerics);
  const nlohmann::json event = found("run");
  EXPECT_EQ(event["direction"], "forward");
  EXPECT_EQ(event["replica"], 1);
  EXPECT_EQ(event["micro_batch"], 0);
  EXPECT_EQ(event["samples"], nlohmann::json({20, 21}));
  EXPECT_EQ(event["wrong_computation"], 2);
}

TEST_F(RecomputeCheckTest, AMachineThatIsNeverTheSameIsSaidToBeSo) {
  const auto flip = [](const model::Parameter& parameter, const StepMoment& moment) {
    if (moment.computed) flip_bit(parameter.gradient.as<float>()[5], moment.computation);
  };
  ASSERT_EQ(train(checked("run", {}), flipping(middle, flip)), ExitCode::numerics);
  EXPECT_EQ(found("run")["wrong_computation"], 0);
}

// What replicas hold, compared every few steps.
using ReplicaCheckTest = TrainingTest;

TEST_F(ReplicaCheckTest, AReplicaThatDriftsIsFoundAndNamed) {
  for (const char* what : {"", ".moment1", ".moment2"}) {
    const std::string name = fmt::format("run{}", what);
    TrainOptions options;
    options.at_step = [what](const StepMoment& moment) {
      if (moment.step != 3 || !moment.computed || moment.rank != 3) return;
      for (const model::Parameter& parameter : moment.engine.rank().parameters().parameters()) {
        if (parameter.spec.name != "layers.1.mlp.up.weight") continue;
        for (const model::NamedState& state : model::lasting_state(parameter)) {
          if (state.ending == what) flip_bit(state.tensor.as<float>()[100], 0);
        }
      }
    };
    ASSERT_EQ(train(job(name, {"parallel.pipeline=2", "parallel.data=2", "batch.global=8",
                               "checkpoint.every_steps=2", "numerics.replica_check_every_steps=2"}),
                    options),
              ExitCode::numerics);
    const auto seen = events(name, "replicas_differ");
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0]["step"], 4);
    EXPECT_EQ(seen[0]["unit"], "mlp_1");
    EXPECT_EQ(seen[0]["what"], fmt::format("layers.1.mlp.up.weight{}", what));
    EXPECT_EQ(seen[0]["element"], 100);
    EXPECT_EQ(seen[0]["agreeing_ranks"], nlohmann::json({1}));
    EXPECT_EQ(seen[0]["differing_ranks"], nlohmann::json({3}));
    EXPECT_FALSE(fs::exists(run(name) / "checkpoints" / "step-00000004")) << "nothing of it is saved";
    EXPECT_EQ(open(name, 2).manifest().step, 2);
  }
}

TEST_F(ReplicaCheckTest, OfThreeTheOneThatIsAloneIsNamed) {
  TrainOptions options;
  options.at_step = [](const StepMoment& moment) {
    if (moment.step != 1 || !moment.computed || moment.rank != 0) return;
    const auto& parameters = moment.engine.rank().parameters();
    flip_bit(parameters.find(0, "embedding.token.weight").master.as<float>()[3], 3);
  };
  ASSERT_EQ(train(job("run", {"parallel.data=3", "batch.global=6", "numerics.replica_check_every_steps=1"}),
                  options),
            ExitCode::numerics);
  const auto seen = events("run", "replicas_differ");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0]["agreeing_ranks"], nlohmann::json({1, 2}));
  EXPECT_EQ(seen[0]["differing_ranks"], nlohmann::json({0}));
  EXPECT_EQ(seen[0]["element"], 3);
  EXPECT_EQ(seen[0]["unit"], "embedding");
}

TEST_F(ReplicaCheckTest, SoundReplicasAreEqual) {
  for (const Settings& topology : {Settings{"parallel.pipeline=2", "parallel.data=2"},
                                   {"parallel.pipeline=2", "parallel.schedule=dualpipe"},
                                   {"parallel.pipeline=2", "precision.compute=bf16", "parallel.data=2"}}) {
    Settings settings = topology;
    settings.insert(settings.end(),
                    {"batch.global=8", "run.steps=3", "numerics.replica_check_every_steps=1"});
    EXPECT_EQ(train(job(topology[1], settings), {}), ExitCode::finished) << topology[1];
  }
}

}  // namespace
}  // namespace penstock
