// Whole runs on a GPU that its ranks share: the processor's losses, and the same bits however many ranks, on
// whatever schedule, kernel by kernel or as graphs (contract C1).
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/trainer/tiny_training.h"

namespace penstock {
namespace {

using Parameters = std::tuple<int, const char*>;  ///< ranks, compute dtype

struct GpuTraining : TrainingTest, testing::WithParamInterface<Parameters> {
  static std::vector<std::string> on_gpu(int ranks, const std::string& schedule) {
    return {"run.steps=4",
            fmt::format("precision.compute={}", std::get<1>(GetParam())),
            "parallel.device=cuda",
            "parallel.share_devices=true",
            "evaluation.every_steps=0",
            fmt::format("parallel.pipeline={}", ranks),
            fmt::format("parallel.schedule={}", schedule)};
  }
};

TEST_P(GpuTraining, HasTheBitsOfOneRank) {
  ASSERT_EQ(train(job("one", on_gpu(1, "1f1b")), {}), ExitCode::finished);
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    ASSERT_EQ(train(job(schedule, on_gpu(std::get<0>(GetParam()), schedule)), {}), ExitCode::finished);
    expect_equal(open("one", 4), open(schedule, 4));
  }
  auto graphs = on_gpu(std::get<0>(GetParam()), "1f1b");
  graphs.emplace_back("cuda.graphs=true");
  ASSERT_EQ(train(job("graphs", graphs), {}), ExitCode::finished);
  expect_equal(open("one", 4), open("graphs", 4));
}

std::string name_of(const testing::TestParamInfo<Parameters>& info) {
  return fmt::format("{}_ranks_{}", std::get<0>(info.param), std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(C1, GpuTraining,
                         testing::Combine(testing::Values(1, 2, 4), testing::Values("fp32", "bf16", "fp16")),
                         name_of);

TEST_F(TrainingTest, AGpuHasTheProcessorsLosses) {
  const std::vector<std::string> common = {"run.steps=4", "precision.compute=fp32",
                                           "evaluation.every_steps=0"};
  auto on_cpu = common;
  on_cpu.emplace_back("parallel.device=cpu");
  auto on_gpu = common;
  on_gpu.emplace_back("parallel.device=cuda");
  ASSERT_EQ(train(job("cpu", on_cpu), {}), ExitCode::finished);
  ASSERT_EQ(train(job("gpu", on_gpu), {}), ExitCode::finished);
  const auto expected = metrics("cpu");
  const auto found = metrics("gpu");
  ASSERT_EQ(found.size(), 4u);
  for (size_t step = 0; step < found.size(); ++step) {
    const double loss = expected[step]["loss"].get<double>();
    EXPECT_NEAR(found[step]["loss"].get<double>(), loss, 1e-4 * loss) << "step " << step;
    const double norm = expected[step]["grad_norm"].get<double>();
    EXPECT_NEAR(found[step]["grad_norm"].get<double>(), norm, 1e-3 * norm) << "step " << step;
  }
}

}  // namespace
}  // namespace penstock
