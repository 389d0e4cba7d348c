// How matrix products are computed is chosen once a run: by rank 0, for all ranks and all of its parts.
#include <gmock/gmock.h>

#include "tests/fake_cuda/cublaslt/faults.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/trainer/cuda/on_cuda.h"
#include "trainer/resume.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

class MatmulPlansTest : public TrainingTest {
 protected:
  MatmulPlansTest() { fresh(); }
  ~MatmulPlansTest() override { fresh(); }
  static void fresh() {
    fake_cuda::reset();
    fake_cublaslt::reset();
  }
  ExitCode run_to(const std::string& name, int steps, std::vector<std::string> more = {}) {
    more.push_back(fmt::format("run.steps={}", steps));
    return train(job(name, on_cuda(more)), {});
  }
  std::string log(const std::string& name) const {
    std::string all;
    for (const auto& entry : fs::directory_iterator(run(name) / "logs")) {
      std::ifstream in(entry.path());
      all.append(std::istreambuf_iterator<char>(in), {});
    }
    return all;
  }
  nlohmann::json stored(const std::string& name, int step) const {
    return open(name, step).manifest().state.at("matmul_plans");
  }
};

TEST_F(MatmulPlansTest, ARunThatGoesOnKeepsItsAlgorithms) {
  fake_cublaslt::faults().first_proposal = 1;
  ASSERT_EQ(run_to("whole", 4), ExitCode::finished);
  ASSERT_EQ(run_to("parts", 2), ExitCode::finished);
  EXPECT_THAT(log("parts"), HasSubstr("matrix products planned for cuBLASLt"));
  EXPECT_THAT(log("parts"), Not(HasSubstr("the checkpoint's")));

  fake_cublaslt::faults().first_proposal = 0;  // the library would choose others now
  ASSERT_EQ(run_to("parts", 4), ExitCode::finished);
  expect_equal(open("whole", 4), open("parts", 4));
  EXPECT_THAT(log("parts"), HasSubstr("of them the checkpoint's"));
  std::ifstream in(run("parts") / "matmul_plans.json");
  EXPECT_EQ(nlohmann::json::parse(in), stored("whole", 4));

  ASSERT_EQ(run_to("others", 4), ExitCode::finished);
  EXPECT_NE(stored("others", 4), stored("whole", 4));
  EXPECT_NE(metrics("others")[3]["loss"], metrics("whole")[3]["loss"])
      << "algorithms add in different orders";
}

TEST_F(MatmulPlansTest, AnotherLibraryOrDriverChoosesAnewAndSaysSo) {
  ASSERT_EQ(run_to("run", 1), ExitCode::finished);
  fake_cublaslt::faults().version = 120900;
  ASSERT_EQ(run_to("run", 2), ExitCode::finished);
  EXPECT_THAT(log("run"), HasSubstr("here is cuBLASLt 120900 (driver 13000)"));
  EXPECT_THAT(log("run"),
              HasSubstr("new ones are chosen; losses may differ in their last bits from here on"));
  EXPECT_EQ(stored("run", 2).at("cublaslt"), 120900);
  fake_cuda::reset({.driver_version = 13020});
  ASSERT_EQ(run_to("run", 3), ExitCode::finished);
  EXPECT_THAT(log("run"), HasSubstr("here is cuBLASLt 120900 (driver 13020)"));
}

TEST_F(MatmulPlansTest, AllRanksHaveRank0s) {
  ASSERT_EQ(run_to("two", 1, {"parallel.pipeline=2"}), ExitCode::finished);
  ASSERT_EQ(run_to("one", 1), ExitCode::finished);
  EXPECT_EQ(stored("two", 1), stored("one", 1)) << "all products of the model, whoever computes them";
  EXPECT_GT(stored("one", 1).at("products").size(), 10u);
  for (const auto& product : stored("one", 1).at("products")) EXPECT_EQ(product.at("split_k"), 1);
}

TEST_F(MatmulPlansTest, Tf32IsAskedForByName) {
  ASSERT_EQ(run_to("fp32", 2), ExitCode::finished);
  ASSERT_EQ(run_to("tf32", 2, {"cuda.tf32=true"}), ExitCode::finished);
  ASSERT_EQ(run_to("bf16", 1, {"cuda.tf32=true", "precision.compute=bf16"}), ExitCode::finished);
  const auto rounded = [&](const std::string& name, int step) {
    std::vector<bool> all;
    for (const auto& product : stored(name, step).at("products"))
      all.push_back(product.at("tf32").get<bool>());
    return all;
  };
  EXPECT_THAT(rounded("fp32", 2), testing::Each(false));
  EXPECT_THAT(rounded("tf32", 2), testing::Each(true)) << "the head's, too";
  EXPECT_THAT(rounded("bf16", 1), testing::Each(false)) << "there is nothing to round";
  const double fp32 = metrics("fp32")[1]["loss"].get<double>();
  const double tf32 = metrics("tf32")[1]["loss"].get<double>();
  EXPECT_NE(tf32, fp32);
  EXPECT_NEAR(tf32, fp32, 5e-3 * fp32);
  // Other bits: not what the run began with.
  EXPECT_THROW(run_to("fp32", 3, {"cuda.tf32=true"}), ResumeError);
}

TEST_F(MatmulPlansTest, TheProcessorHasNoChoice) {
  ASSERT_EQ(train(job("cpu", {"run.steps=1", "precision.compute=fp32", "parallel.device=cpu",
                              "cuda.attention=native", "evaluation.every_steps=0"}),
                  {}),
            ExitCode::finished);
  EXPECT_FALSE(open("cpu", 1).manifest().state.contains("matmul_plans"));
  EXPECT_FALSE(fs::exists(run("cpu") / "matmul_plans.json"));
  // A run that begins on the processor goes on where there is one.
  ASSERT_EQ(run_to("cpu", 2), ExitCode::finished);
  EXPECT_TRUE(open("cpu", 2).manifest().state.contains("matmul_plans"));
}

}  // namespace
}  // namespace penstock
