// Actions as CUDA graphs: the same bits, whatever changes from step to step.
#include <algorithm>

#include <gmock/gmock.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/trainer/accounted_run.h"
#include "tests/trainer/cuda/on_cuda.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class GraphsTest : public AccountedRun {
 protected:
  GraphsTest() { fake_cuda::reset(); }
  ~GraphsTest() override { fake_cuda::reset(); }

  // Learning rates that change at every step, and dropout by the ids of the samples.
  static std::vector<std::string> changing(std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run.steps=5", "batch.global=4", "batch.micro=1", "model.sequence_length=8",
                 "learning_rate.decay_style=cosine", "learning_rate.warmup_steps=3", "model.dropout=0.2"});
    return on_cuda(std::move(more));
  }

  // The same run, kernel by kernel and as graphs.
  void expect_same_bits(const std::vector<std::string>& more) {
    std::vector<std::string> with = changing(more);
    with.emplace_back("cuda.graphs=true");
    ASSERT_EQ(train(job("plain", changing(more)), {}), ExitCode::finished);
    EXPECT_EQ(fake_cuda::graph_launches(), 0u);
    ASSERT_EQ(train(job("graphs", with), {}), ExitCode::finished);
    EXPECT_GT(fake_cuda::graph_launches(), 12u);
    EXPECT_EQ(log().find("kernel by kernel"), std::string::npos);
    EXPECT_THAT(log(), HasSubstr("actions of rank 0 were launched as graphs"));
    expect_equal(open("plain", 5), open("graphs", 5));
    const auto plain = metrics("plain");
    const auto graphs = metrics("graphs");
    ASSERT_EQ(graphs.size(), 5u);
    for (size_t step = 0; step < 5; ++step) {
      EXPECT_EQ(plain[step]["loss"], graphs[step]["loss"]) << "step " << step + 1;
      EXPECT_EQ(plain[step]["grad_norm"], graphs[step]["grad_norm"]) << "step " << step + 1;
    }
    const auto evaluated = events("plain", "evaluation");
    const auto again = events("graphs", "evaluation");
    ASSERT_EQ(evaluated.size(), again.size());
    for (size_t at = 0; at < evaluated.size(); ++at) EXPECT_EQ(evaluated[at]["loss"], again[at]["loss"]);
  }

  std::string log() const {
    std::ifstream in(run("graphs") / "logs" / "rank-00000.log");
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(GraphsTest, OneRankWithEvaluations) {
  expect_same_bits({"recompute.mode=none", "evaluation.every_steps=2", "evaluation.batches=1"});
  EXPECT_EQ(events("graphs", "evaluation").size(), 3u);
}

TEST_F(GraphsTest, SelectiveRecomputationIn1f1b) {
  expect_same_bits({"recompute.mode=selective", "parallel.pipeline=2", "parallel.schedule=1f1b"});
}

TEST_F(GraphsTest, FullRecomputationInZbv) {
  expect_same_bits(
      {"recompute.mode=full", "parallel.pipeline=2", "parallel.chunks=2", "parallel.schedule=zbv"});
}

TEST_F(GraphsTest, ReplicasWithWindows) {
  expect_same_bits({"recompute.mode=none", "parallel.data=2", "parallel.reduce_every=2"});
}

TEST_F(GraphsTest, AnActionThatCannotBeCapturedRunsAsBefore) {
  ASSERT_EQ(train(job("plain", changing({"recompute.mode=none"})), {}), ExitCode::finished);
  fake_cuda::fail_call("cudaGraphInstantiate", cudaErrorNotSupported);
  fake_cuda::fail_call("cudaStreamEndCapture", cudaErrorStreamCaptureUnsupported, 1);
  ASSERT_EQ(train(job("graphs", changing({"recompute.mode=none", "cuda.graphs=true"})), {}),
            ExitCode::finished);
  EXPECT_GT(fake_cuda::graph_launches(), 0u);
  expect_equal(open("plain", 5), open("graphs", 5));
  EXPECT_THAT(log(), HasSubstr("of stage 0 is launched kernel by kernel: "));
  EXPECT_EQ(fake_cuda::lost_because(), "");
}

TEST_F(GraphsTest, MayBeTurnedOnWhenARunGoesOn) {
  ASSERT_EQ(train(job("plain", changing({"recompute.mode=none"})), {}), ExitCode::finished);
  ASSERT_EQ(
      train(job("graphs", changing({"recompute.mode=none", "run.steps=3", "learning_rate.decay_steps=5"})),
            {}),
      ExitCode::finished);
  ASSERT_EQ(train(job("graphs", changing({"recompute.mode=none", "cuda.graphs=true"})), {}),
            ExitCode::finished);
  EXPECT_GT(fake_cuda::graph_launches(), 0u);
  expect_equal(open("plain", 5), open("graphs", 5));
}

}  // namespace
}  // namespace penstock
