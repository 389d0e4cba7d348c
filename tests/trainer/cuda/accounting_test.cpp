// Time on GPUs is accounted for by their own clocks, and named for profilers.
#include <algorithm>
#include <chrono>

#include <gmock/gmock.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/profiler.h"
#include "tests/trainer/accounted_run.h"
#include "tests/trainer/cuda/on_cuda.h"

namespace penstock {
namespace {

using nlohmann::json;

class CudaAccountingTest : public AccountedRun {
 protected:
  CudaAccountingTest() { fake_cuda::reset(); }
  ~CudaAccountingTest() override { fake_cuda::reset(); }

  // Names of a traced step's instructions on all ranks, sorted.
  std::vector<std::string> traced(const std::string& name, int step) const {
    std::ifstream in(run(name) / "trace" / fmt::format("step-{:08}.json", step));
    std::vector<std::string> names;
    const json file = json::parse(in);
    for (const json& event : file.at("traceEvents")) {
      // The ends of arrows are slices, too.
      if (event["ph"] == "X" && event["cat"] != "message") names.push_back(event["name"].get<std::string>());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(CudaAccountingTest, StepsAreWholeByTheClocksOfTheGpus) {
  fake_cuda::set_clock_ahead(1'000'000'000'000'000);  // 11 days: no GPU's clock is its host's
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(train(job("run", on_cuda({"run.steps=8", "parallel.pipeline=2", "batch.global=8",
                                      "recompute.mode=full", "parallel.schedule=zb-h1"})),
                  {}),
            ExitCode::finished);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  const auto lines = metrics("run");
  ASSERT_EQ(lines.size(), 8u);
  expect_whole(lines, 2, 0.01);
  double accounted = 0;
  double steps = 0;
  for (const json& line : lines) {
    accounted += line["ranks"][0]["accounted_ms"].get<double>();
    steps += line["step_ms"].get<double>();
    for (const json& rank : line["ranks"]) {
      EXPECT_GT(rank["recompute_ms"], 0);
      // Kernels run long after the host has queued them: what it takes to queue would be less.
      EXPECT_GT(rank["backward_weight_ms"], 0);
    }
  }
  EXPECT_LT(accounted, took.count());
  EXPECT_GT(accounted, 0.9 * steps);
}

TEST_F(CudaAccountingTest, ProfilersSeeTheNamesOfTheTrace) {
  fake_cuda::start_profiling();
  ASSERT_EQ(train(job("run", on_cuda({"run.steps=1", "trace.steps=[1]", "parallel.pipeline=2",
                                      "parallel.chunks=2", "parallel.schedule=interleaved"})),
                  {}),
            ExitCode::finished);
  fake_cuda::ProfiledRanges seen = fake_cuda::stop_profiling();
  EXPECT_EQ(seen.ended, seen.names.size());
  EXPECT_FALSE(seen.ended_too_often);
  EXPECT_EQ(seen.unregistered, 0u) << "a name is registered once, not made at every call";
  std::sort(seen.names.begin(), seen.names.end());
  EXPECT_EQ(seen.names, traced("run", 1));
  EXPECT_THAT(seen.names, testing::Contains("F 1 of stage 3"));
}

TEST_F(CudaAccountingTest, AStepThatFailsEndsItsRanges) {
  fake_cuda::start_profiling();
  fake_cuda::fail_call("cudaMemcpyAsync", cudaErrorInvalidValue, 150);
  EXPECT_ANY_THROW(train(job("run", on_cuda({"run.steps=20"})), {}));
  const fake_cuda::ProfiledRanges seen = fake_cuda::stop_profiling();
  EXPECT_GT(seen.names.size(), 0u);
  EXPECT_EQ(seen.ended, seen.names.size());
}

TEST_F(CudaAccountingTest, TheProcessorHasNoRanges) {
  fake_cuda::start_profiling();
  ASSERT_EQ(train(job("run", {"run.steps=1", "parallel.device=cpu"}), {}), ExitCode::finished);
  EXPECT_TRUE(fake_cuda::stop_profiling().names.empty());
}

TEST_F(CudaAccountingTest, StepsCopyNothingThatIsPageable) {
  const auto copies_of = [&](int steps) {
    fake_cuda::reset();
    EXPECT_EQ(train(job(fmt::format("steps{}", steps),
                        on_cuda({fmt::format("run.steps={}", steps), "parallel.pipeline=2", "batch.global=8",
                                 "parallel.schedule=1f1b"})),
                    {}),
              ExitCode::finished);
    return fake_cuda::pageable_copies();
  };
  // What starts and ends a run may; a step may not.
  EXPECT_EQ(copies_of(4), copies_of(1));
}

}  // namespace
}  // namespace penstock
