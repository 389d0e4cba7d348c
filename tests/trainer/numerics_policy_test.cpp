// What whole runs do about NaN and spikes, by policy.
#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file_writer.h"
#include "tests/trainer/planted_fault.h"
#include "tests/trainer/tiny_training.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Lasts = PlantedFault::Lasts;
using Settings = std::vector<std::string>;

constexpr const char* middle = "layers.1.mlp.up.weight";
constexpr const char* last_norm = "head.norm.weight";

class NumericsPolicyTest : public TrainingTest {
 protected:
  // 14 steps of 4 samples, saved after 4, 8 and 12 of them.
  Job long_job(const std::string& name, const Settings& more) const {
    Settings settings{"run.steps=14", "checkpoint.every_steps=4", "checkpoint.keep_last=20",
                      "numerics.spike_window=8"};
    settings.insert(settings.end(), more.begin(), more.end());
    return job(name, settings);
  }

  static TrainOptions planting(PlantedFault& fault) {
    TrainOptions options;
    options.at_step = [&fault](const StepMoment& moment) { fault(moment); };
    return options;
  }

  // Puts a value into a saved checkpoint's state.
  void change_state(const std::string& name, int step, const std::string& entry,
                    const nlohmann::json& value) const {
    const checkpoint::Checkpoint saved = open(name, step);
    checkpoint::Manifest manifest = saved.manifest();
    manifest.state.at(entry) = value;
    data::write_file(saved.path() + "/manifest.json", checkpoint::to_text(manifest));
  }

  void forget_after(const std::string& name, int step) const {
    for (const auto& entry : fs::directory_iterator(run(name) / "checkpoints")) {
      const std::string folder = entry.path().filename().string();
      if (folder.rfind("step-", 0) == 0 && std::stoi(folder.substr(5)) > step) fs::remove_all(entry.path());
    }
  }

  std::string reason(const std::string& name) const {
    return nlohmann::json::parse(std::ifstream(run(name) / "status.json"))["reason"];
  }
};

struct Case {
  const char* name;
  std::vector<std::string> topology;
  bool spike;
};

class Policies : public NumericsPolicyTest, public testing::WithParamInterface<Case> {
 protected:
  static PlantedFault fault(Lasts lasts) {
    return GetParam().spike ? PlantedFault(last_norm, {10}, 1, lasts, PlantedFault::times(300))
                            : PlantedFault(middle, {10}, 1, lasts, PlantedFault::not_a_number());
  }
  Job asking(const std::string& name, const std::string& policy, const Settings& topology = {}) const {
    Settings settings{fmt::format("numerics.{}={}", GetParam().spike ? "on_spike" : "on_nonfinite", policy)};
    settings.insert(settings.end(), topology.begin(), topology.end());
    return long_job(name, settings);
  }
  std::string event_name() const { return GetParam().spike ? "spike" : "nonfinite"; }
};

// The run after it is bitwise that of a checkpoint which says that the samples of the step are skipped, on
// any topology.
TEST_P(Policies, ARollbackSkipsTheSamplesAsIfTheyHadNeverBeen) {
  PlantedFault planted = fault(Lasts::for_good);
  ASSERT_EQ(train(asking("rolled", "rollback", GetParam().topology), planting(planted)), ExitCode::finished);
  const auto seen = events("rolled", event_name());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0]["step"], 11);
  EXPECT_EQ(seen[0]["policy"], "rollback");
  const auto rollbacks = events("rolled", "rollback");
  ASSERT_EQ(rollbacks.size(), 1u);
  EXPECT_EQ(rollbacks[0]["step"], 11);
  EXPECT_EQ(rollbacks[0]["to"], 8);
  EXPECT_EQ(rollbacks[0]["skipped_samples"], nlohmann::json({40, 44}));
  const nlohmann::json ranges{{40, 44}};
  EXPECT_EQ(open("rolled", 12).manifest().state.at("skipped_samples"), ranges);

  Settings alike{"run.steps=8", "learning_rate.decay_steps=14"};
  if (std::count(GetParam().topology.begin(), GetParam().topology.end(), "parallel.data=2") > 0)
    alike.emplace_back("parallel.data=2");
  ASSERT_EQ(train(asking("planted", "rollback", alike), {}), ExitCode::finished);
  change_state("planted", 8, "skipped_samples", ranges);
  alike.erase(alike.begin());
  ASSERT_EQ(train(asking("planted", "rollback", alike), {}), ExitCode::finished);
  expect_equal(open("planted", 14), open("rolled", 14));
}

// Not applied, and the next step takes the next samples.
TEST_P(Policies, ASkippedStepChangesNoWeight) {
  PlantedFault planted = fault(Lasts::until_the_step_is_computed);
  Settings settings = GetParam().topology;
  settings.emplace_back("checkpoint.every_steps=1");
  settings.emplace_back("checkpoint.background=false");  // no copy may see the fault
  ASSERT_EQ(train(asking("skipped", "skip", settings), planting(planted)), ExitCode::finished);
  EXPECT_EQ(events("skipped", event_name()).size(), 1u);
  EXPECT_EQ(metrics("skipped").size(), 14u);
  expect_same_model(open("skipped", 10), open("skipped", 11));
  EXPECT_EQ(open("skipped", 11).manifest().state.at("skips_in_a_row"), 1);
  EXPECT_EQ(open("skipped", 12).manifest().state.at("skips_in_a_row"), 0);
  EXPECT_EQ(open("skipped", 14).manifest().state.at("skipped_samples"), nlohmann::json::array());
  // Gone on from there without the fault: the same.
  forget_after("skipped", 11);
  fs::copy(run("skipped"), run("again"), fs::copy_options::recursive);
  Settings alike{"checkpoint.every_steps=1"};
  if (std::count(settings.begin(), settings.end(), "parallel.data=2") > 0)
    alike.emplace_back("parallel.data=2");
  ASSERT_EQ(train(asking("again", "skip", alike), {}), ExitCode::finished);
  EXPECT_EQ(metrics("again").back()["loss"], metrics("skipped").back()["loss"]);
}

TEST_P(Policies, AStopIsForAPersonToLookAt) {
  PlantedFault planted = fault(Lasts::for_good);
  ASSERT_EQ(train(asking("stopped", "stop", GetParam().topology), planting(planted)), ExitCode::numerics);
  EXPECT_THAT(reason("stopped"), HasSubstr("step 11: "));
  EXPECT_THAT(reason("stopped"), HasSubstr(GetParam().spike ? "numerics.on_spike = \"stop\""
                                                            : "numerics.on_nonfinite = \"stop\""));
}

INSTANTIATE_TEST_SUITE_P(Numerics, Policies,
                         testing::Values(Case{"nonfinite_pipeline", {"parallel.pipeline=2"}, false},
                                         Case{"nonfinite_replicas", {"parallel.data=2"}, false},
                                         Case{"spike_pipeline", {"parallel.pipeline=2"}, true},
                                         Case{"spike_replicas", {"parallel.data=2"}, true}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(NumericsPolicyTest, TheFirstPlaceIsNamedInTheWordsOfThePipeline) {
  PlantedFault planted(middle, {3}, 1, Lasts::for_good, PlantedFault::not_a_number());
  ASSERT_EQ(train(long_job("run", {"parallel.pipeline=2", "parallel.data=2"}), planting(planted)),
            ExitCode::numerics);
  const auto seen = events("run", "nonfinite");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0]["unit"], "mlp_1");
  EXPECT_EQ(seen[0]["what"], fmt::format("parameter {}", middle));
  EXPECT_EQ(seen[0]["direction"], "forward");
  EXPECT_EQ(seen[0]["stage"], 1);
  EXPECT_EQ(seen[0]["rank"], 1);
  EXPECT_EQ(seen[0]["replica"], 0);
  EXPECT_EQ(seen[0]["samples"], nlohmann::json({12, 13}));
  EXPECT_THAT(reason("run"), HasSubstr("stage 1 (rank 1), replica 0, micro-batch 0 (samples 12 to 13)"));
}

TEST_F(NumericsPolicyTest, WithoutACheckpointARunGoesBackToItsBeginning) {
  PlantedFault planted(middle, {2}, 1, Lasts::for_good, PlantedFault::not_a_number());
  ASSERT_EQ(train(job("run", {"numerics.on_nonfinite=rollback"}), planting(planted)), ExitCode::finished);
  ASSERT_EQ(events("run", "rollback").size(), 1u);
  EXPECT_EQ(events("run", "rollback")[0]["to"], 0);
  const auto lines = metrics("run");
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[3]["step"], 1);
  EXPECT_EQ(lines[3]["loss"], lines[0]["loss"]);
  EXPECT_EQ(lines[4]["loss"], lines[1]["loss"]);
  EXPECT_EQ(lines[4]["tokens"], lines[1]["tokens"]);
  // Without the fault the third step has the samples of the fourth.
  ASSERT_EQ(train(job("straight"), {}), ExitCode::finished);
  EXPECT_NE(lines[5]["loss"], metrics("straight")[2]["loss"]);
}

TEST_F(NumericsPolicyTest, RollbacksInARowComeToAnEnd) {
  PlantedFault planted(middle, {5}, 100, Lasts::for_good, PlantedFault::not_a_number());
  const Job stubborn = long_job("run", {"numerics.on_nonfinite=rollback", "numerics.max_in_a_row=2"});
  ASSERT_EQ(train(stubborn, planting(planted)), ExitCode::numerics);
  EXPECT_EQ(events("run", "nonfinite").size(), 3u);
  EXPECT_EQ(events("run", "rollback").size(), 2u);
  EXPECT_THAT(reason("run"), HasSubstr("taken back to step 4 2 times in a row"));
  // Nothing is lost: without the fault the same command goes on from step 4.
  EXPECT_EQ(train(stubborn, {}), ExitCode::finished);
}

// Contract C2: each entry of the state, taken away, is missed.
TEST_F(NumericsPolicyTest, WhatWasSkippedIsStateOfTheRun) {
  PlantedFault planted(middle, {10}, 1, Lasts::for_good, PlantedFault::not_a_number());
  const Job rolled = long_job("run", {"numerics.on_nonfinite=rollback"});
  ASSERT_EQ(train(rolled, planting(planted)), ExitCode::finished);
  const auto end = metrics("run").back()["loss"];
  fs::copy(run("run"), run("kept"), fs::copy_options::recursive);
  for (const char* name : {"run", "kept"}) forget_after(name, 12);
  change_state("run", 12, "skipped_samples", nlohmann::json::array());
  ASSERT_EQ(train(rolled, {}), ExitCode::finished);
  ASSERT_EQ(train(long_job("kept", {"numerics.on_nonfinite=rollback", "parallel.pipeline=2"}), {}),
            ExitCode::finished);
  EXPECT_EQ(metrics("kept").back()["loss"], end);
  EXPECT_NE(metrics("run").back()["loss"], end);
}

TEST_F(NumericsPolicyTest, SkipsInARowComeToAnEndAlsoOverAResume) {
  PlantedFault planted(middle, {4, 5, 6}, 100, Lasts::until_the_step_is_computed,
                       PlantedFault::not_a_number());
  const Settings settings{"numerics.on_nonfinite=skip", "numerics.max_in_a_row=2", "checkpoint.every_steps=1",
                          "checkpoint.background=false"};
  ASSERT_EQ(train(long_job("run", settings), planting(planted)), ExitCode::numerics);
  EXPECT_THAT(reason("run"), HasSubstr("this is step 3 in a row and numerics.max_in_a_row = 2"));
  EXPECT_FALSE(fs::exists(run("run") / "checkpoints" / "step-00000007"));
  fs::copy(run("run"), run("forgetful"), fs::copy_options::recursive);
  EXPECT_EQ(train(long_job("run", settings), planting(planted)), ExitCode::numerics);
  change_state("forgetful", 6, "skips_in_a_row", 0);
  EXPECT_EQ(train(long_job("forgetful", settings), planting(planted)), ExitCode::finished);
}

TEST_F(NumericsPolicyTest, AStateThatIsNotFiniteIsNeverSaved) {
  for (const char* topology : {"parallel.pipeline=1", "parallel.pipeline=2"}) {
    const std::string name = topology;
    TrainOptions options;
    // After the update; nothing reads it before the next one.
    options.at_step = [](const StepMoment& moment) {
      if (!moment.computed || moment.step != 5) return;
      for (const model::Parameter& parameter : moment.engine.rank().parameters().parameters()) {
        if (parameter.spec.name == middle)
          parameter.moment1.as<float>()[7] = std::numeric_limits<float>::infinity();
      }
    };
    ASSERT_EQ(train(job(name, {topology, "checkpoint.every_steps=5"}), options), ExitCode::numerics);
    EXPECT_THAT(reason(name), HasSubstr("step 6: saving failed: 1 of the values of rank"));
    EXPECT_THAT(reason(name), HasSubstr("layers.1.mlp.up.weight.moment1"));
    EXPECT_FALSE(fs::exists(run(name) / "checkpoints" / "step-00000006"));
    EXPECT_EQ(open(name, 5).manifest().step, 5);
  }
}

}  // namespace
}  // namespace penstock
