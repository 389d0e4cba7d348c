// fp16 with a loss scale that follows the gradients: by itself, and in whole runs.
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/tiny_training.h"
#include "trainer/loss_scaler.h"

namespace penstock {
namespace {

using testing::HasSubstr;

Job scaled_job() {
  Job job;
  job.precision.compute = Precision::fp16;
  job.loss_scaling.initial = 8;
  job.loss_scaling.growth_interval = 3;
  job.loss_scaling.minimum = 2;
  job.loss_scaling.maximum = 16;
  return job;
}

TEST(LossScaler, FollowsWhatBecomesOfSteps) {
  LossScaler scaler(scaled_job());
  EXPECT_TRUE(scaler.active());
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_FALSE(scaler.succeeded());
  EXPECT_FALSE(scaler.succeeded());
  EXPECT_TRUE(scaler.overflowed());
  EXPECT_EQ(scaler.scale(), 4);
  for (const bool grows : {false, false, true, false, false, true}) EXPECT_EQ(scaler.succeeded(), grows);
  EXPECT_EQ(scaler.scale(), 16);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(scaler.succeeded());
  EXPECT_EQ(scaler.scale(), 16);  // the maximum
  for (const double next : {8, 4, 2}) {
    EXPECT_TRUE(scaler.overflowed());
    EXPECT_EQ(scaler.scale(), next);
  }
  EXPECT_FALSE(scaler.overflowed());
  EXPECT_EQ(scaler.scale(), 2);
}

TEST(LossScaler, IsThereWhereSomethingIsFp16) {
  Job job;
  EXPECT_FALSE(scales_loss(job));
  LossScaler none(job);
  for (int i = 0; i < 3000; ++i) EXPECT_FALSE(none.succeeded());
  EXPECT_FALSE(none.overflowed());
  EXPECT_EQ(none.scale(), 1);
  for (Precision PrecisionSection::*where :
       {&PrecisionSection::compute, &PrecisionSection::p2p, &PrecisionSection::gradient_reduce}) {
    Job one;
    one.precision.*where = Precision::fp16;
    EXPECT_TRUE(scales_loss(one));
  }
}

// Each of the two values of its state is needed to go on as it began.
TEST(LossScaler, GoesOnFromItsState) {
  LossScaler straight(scaled_job());
  straight.overflowed();
  straight.succeeded();
  straight.succeeded();
  const nlohmann::json state = straight.state();
  straight.succeeded();
  const auto resumed = [&](const char* zeroed) {
    nlohmann::json changed = nlohmann::json::parse(state.dump());
    if (zeroed != nullptr) changed[zeroed] = 0;
    LossScaler scaler(scaled_job());
    scaler.restore(changed);
    scaler.succeeded();
    return scaler.state();
  };
  EXPECT_EQ(resumed(nullptr), straight.state());
  EXPECT_NE(resumed("scale"), straight.state());
  EXPECT_NE(resumed("good_steps"), straight.state());
}

struct LossScaling : TrainingTest {
  Job fp16(const std::string& name, std::vector<std::string> more = {}) const {
    more.emplace_back("precision.compute=fp16");
    more.emplace_back("batch.global=8");
    return job(name, more);
  }
  std::vector<double> scales(const std::string& name) const {
    std::vector<double> all;
    for (const nlohmann::json& line : metrics(name)) all.push_back(line["loss_scale"].get<double>());
    return all;
  }
};

TEST_F(LossScaling, Fp16LearnsAsFp32Does) {
  ASSERT_EQ(train(job("wide", {"batch.global=8", "run.steps=20"}), {}), ExitCode::finished);
  ASSERT_EQ(train(fp16("narrow", {"run.steps=20"}), {}), ExitCode::finished);
  const auto wide = metrics("wide");
  const auto narrow = metrics("narrow");
  EXPECT_FALSE(wide.back().contains("loss_scale"));
  EXPECT_EQ(narrow.back()["loss_scale"], 65536);
  EXPECT_NE(narrow.back()["loss"], wide.back()["loss"]);
  EXPECT_LT(narrow.back()["loss"].get<double>(), 0.9 * narrow.front()["loss"].get<double>());
  for (size_t step = 0; step < 20; ++step) {
    const auto exact = wide[step]["loss"].get<double>();
    EXPECT_NEAR(narrow[step]["loss"].get<double>(), exact, 0.01 * exact) << step;
    const auto norm = wide[step]["grad_norm"].get<double>();
    EXPECT_NEAR(narrow[step]["grad_norm"].get<double>(), norm, 0.05 * norm) << step;
  }
}

TEST_F(LossScaling, PipelinesGiveTheBitsOfOneRank) {
  ASSERT_EQ(train(fp16("one"), {}), ExitCode::finished);
  for (const char* schedule : {"1f1b", "zbv"}) {
    const std::string name = fmt::format("two {}", schedule);
    ASSERT_EQ(train(fp16(name, {"parallel.pipeline=2", fmt::format("parallel.schedule={}", schedule)}), {}),
              ExitCode::finished);
    expect_equal(open("one", 6), open(name, 6));
  }
}

// The first scale is one that no gradient survives: steps are skipped on all ranks alike, until one fits.
TEST_F(LossScaling, AnOverflowLowersTheScaleAndIsNoError) {
  const std::vector<std::string> high{"loss_scaling.initial=16777216",
                                      "loss_scaling.backoff_factor=0.00390625",
                                      "loss_scaling.growth_interval=2", "run.steps=7"};
  ASSERT_EQ(train(fp16("one", high), {}), ExitCode::finished);
  EXPECT_EQ(scales("one"), (std::vector<double>{16777216, 65536, 65536, 131072, 131072, 262144, 262144}));
  const auto events_of_scale = events("one", "loss_scale");
  ASSERT_GE(events_of_scale.size(), 3U);
  EXPECT_EQ(events_of_scale[0]["why"], "overflow");
  EXPECT_EQ(events_of_scale[0]["to"], 65536);
  EXPECT_EQ(events_of_scale[1]["why"], "growth");
  EXPECT_TRUE(events("one", "nonfinite").empty());
  auto piped = high;
  piped.emplace_back("parallel.pipeline=2");
  ASSERT_EQ(train(fp16("two", piped), {}), ExitCode::finished);
  EXPECT_EQ(scales("two"), scales("one"));
  expect_equal(open("one", 7), open("two", 7));
}

TEST_F(LossScaling, AnOverflowAtTheMinimumIsOne) {
  const std::vector<std::string> stuck{"loss_scaling.initial=16777216", "loss_scaling.minimum=16777216"};
  ASSERT_EQ(train(fp16("stuck", stuck), {}), ExitCode::numerics);
  const auto status = nlohmann::json::parse(std::ifstream(run("stuck") / "status.json"));
  EXPECT_THAT(status["reason"].get<std::string>(), HasSubstr("loss_scaling.minimum = 16777216"));
  ASSERT_EQ(events("stuck", "nonfinite").size(), 1U);
}

TEST_F(LossScaling, AResumedRunScalesAsAnUninterruptedOne) {
  const std::vector<std::string> growing{"loss_scaling.growth_interval=4", "checkpoint.every_steps=3"};
  ASSERT_EQ(train(fp16("straight", growing), {}), ExitCode::finished);
  Job parts = fp16("parts", growing);
  parts.run.steps = 3;
  ASSERT_EQ(train(parts, {}), ExitCode::finished);
  ASSERT_EQ(train(fp16("parts", growing), {}), ExitCode::finished);
  EXPECT_EQ(scales("parts"), scales("straight"));
  EXPECT_EQ(scales("parts").back(), 131072);
  expect_equal(open("straight", 6), open("parts", 6));
}

// Wires of their own dtype: as good as without, the same for the same cuts, and counted.
TEST_F(LossScaling, NarrowWiresTrainAsWideOnesDo) {
  const std::vector<std::string> two{"batch.global=8", "parallel.pipeline=2", "parallel.data=2",
                                     "run.steps=10"};
  ASSERT_EQ(train(job("wide", two), {}), ExitCode::finished);
  for (const std::string wire : {"bf16", "fp16"}) {
    auto narrow = two;
    narrow.push_back("precision.p2p=" + wire);
    narrow.push_back("precision.gradient_reduce=" + wire);
    ASSERT_EQ(train(job(wire, narrow), {}), ExitCode::finished);
    EXPECT_EQ(metrics(wire).back().contains("loss_scale"), wire == "fp16");
    EXPECT_NE(metrics(wire).back()["loss"], metrics("wide").back()["loss"]);
    const auto exact = metrics("wide").back()["loss"].get<double>();
    EXPECT_NEAR(metrics(wire).back()["loss"].get<double>(), exact, 0.02 * exact);
    narrow.emplace_back("parallel.schedule=zb-h1");
    ASSERT_EQ(train(job(wire + " zb-h1", narrow), {}), ExitCode::finished);
    expect_equal(open(wire, 10), open(wire + " zb-h1", 10));
  }
}

}  // namespace
}  // namespace penstock
