// Whole runs on the CUDA backend, over the fake runtime: the processor's losses, and the same bits for every
// pipeline (contract C1).
#include <gmock/gmock.h>

#include "kernels/transport/launch.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/trainer/cuda/on_cuda.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST_F(TrainingTest, CudaHasTheProcessorsLosses) {
  fake_cuda::reset();
  ASSERT_EQ(train(job("cpu", {"run.steps=3", "parallel.device=cpu"}), {}), ExitCode::finished);
  ASSERT_EQ(train(job("cuda", on_cuda()), {}), ExitCode::finished);
  const auto expected = metrics("cpu");
  const auto found = metrics("cuda");
  ASSERT_EQ(found.size(), 3u);
  for (size_t step = 0; step < 3; ++step) {
    const double loss = expected[step]["loss"].get<double>();
    EXPECT_NEAR(found[step]["loss"].get<double>(), loss, 1e-4 * loss) << "step " << step;
    const double norm = expected[step]["grad_norm"].get<double>();
    EXPECT_NEAR(found[step]["grad_norm"].get<double>(), norm, 1e-3 * norm) << "step " << step;
  }
  EXPECT_EQ(fake_cuda::lost_because(), "");
}

TEST_F(TrainingTest, CudaPipelinesGiveTheBitsOfOneRank) {
  fake_cuda::reset();
  ASSERT_EQ(train(job("one", on_cuda()), {}), ExitCode::finished);
  ASSERT_EQ(train(job("two", on_cuda({"parallel.pipeline=2"})), {}), ExitCode::finished);
  expect_equal(open("one", 3), open("two", 3));
  fake_cuda::reset({.gpus = 1, .shuffle_seed = 5});
  ASSERT_EQ(train(job("shared", on_cuda({"parallel.pipeline=2", "parallel.share_devices=true"})), {}),
            ExitCode::finished);
  expect_equal(open("one", 3), open("shared", 3));
}

// A second layout is built on the GPU beside the first, and units are copied from one to the other.
TEST_F(TrainingTest, CudaUnitsMoveWhileARunTrains) {
  fake_cuda::reset();
  ASSERT_EQ(train(job("one", on_cuda()), {}), ExitCode::finished);
  TrainOptions options;
  options.acts = {{1, "repartition 2 4"}, {2, "schedule zbv"}};
  ASSERT_EQ(train(job("moved", on_cuda({"parallel.pipeline=2", "parallel.partition=[3, 3]"})), options),
            ExitCode::finished);
  EXPECT_EQ(events("moved", "rearranged").size(), 2u);
  expect_same_model(open("one", 3), open("moved", 3));
  EXPECT_EQ(fake_cuda::lost_because(), "");
}

TEST_F(TrainingTest, TwoRanksOnOneGpuHaveToBeAskedFor) {
  fake_cuda::reset({.gpus = 1});
  std::string message;
  try {
    train(job("two", on_cuda({"parallel.pipeline=2"})), {});
  } catch (const std::exception& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("have the same GPU"));
  EXPECT_THAT(message, HasSubstr("parallel.share_devices"));
  fake_cuda::reset({.driver_version = 0});
  try {
    train(job("none", on_cuda()), {});
  } catch (const transport::LaunchError& error) {  // not a bug of ours
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("no CUDA driver"));
  fake_cuda::reset();
}

}  // namespace
}  // namespace penstock
