// Whole runs over NCCL, its ranks meeting over threads or TCP: the bits of one rank, every step accounted
// for.
#include <gmock/gmock.h>

#include "kernels/transport/launch.h"
#include "kernels/transport/nccl_world.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/nccl/faults.h"
#include "tests/kernels/transport/tcp_ranks.h"
#include "tests/trainer/tiny_training.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// As a program does, before there are ranks.
const bool variables_are_set = [] {
  transport::set_nccl_variables({});
  return true;
}();

std::vector<std::string> on_gpus(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"run.steps=3", "precision.compute=fp32", "parallel.device=cuda",
                           "cuda.attention=native", "evaluation.every_steps=0"});
  return more;
}

struct NcclTraining : TrainingTest {
  NcclTraining() {
    fake_nccl::reset();
    fake_cuda::reset({.gpus = 4});
  }
  ~NcclTraining() override { EXPECT_EQ(fake_nccl::communicators(), 0); }

  static void train_rank(const Job& job, transport::World& hosts) {
    const auto world = transport::make_nccl_world(hosts);
    const transport::AbortOnUnwind abort(*world);
    EXPECT_EQ(penstock::train(job, {}, *world, nullptr), ExitCode::finished);
  }
  static void train_in_threads(const Job& job) {
    transport::run_inproc(static_cast<int>(job.parallel.pipeline * job.parallel.data), {},
                          [&](transport::World& hosts) { train_rank(job, hosts); });
  }
};

TEST_F(NcclTraining, PipelinesGiveTheBitsOfOneRank) {
  ASSERT_EQ(train(job("one", on_gpus()), {}), ExitCode::finished);
  train_in_threads(job("four", on_gpus({"parallel.pipeline=2", "parallel.data=2"})));
  ASSERT_EQ(train(job("replicas", on_gpus({"parallel.data=2"})), {}), ExitCode::finished);
  expect_equal(open("replicas", 3), open("four", 3));
  const Job two =
      job("two", on_gpus({"parallel.pipeline=2", "comm.nccl={NCCL_DEBUG = \"WARN\"}", "trace.steps=[2]"}));
  EXPECT_THAT(transport::run_tcp(2, [&](transport::World& hosts) { train_rank(two, hosts); }),
              Each(std::string()));
  expect_equal(open("one", 3), open("two", 3));
  // Hosts' clocks were compared, and records of all ranks came together.
  const auto lines = metrics("two");
  ASSERT_EQ(lines.size(), 3u);
  for (const auto& line : lines) {
    EXPECT_EQ(line["ranks"].size(), 2u);
    EXPECT_GE(line["bubble_ratio"].get<double>(), 0);
  }
  EXPECT_TRUE(fs::exists(run("two") / "trace" / "step-00000002.json"));
  EXPECT_EQ(fake_cuda::lost_because(), "");
}

TEST_F(NcclTraining, TwoRanksOnOneGpuAreRefusedWhateverTheJobSays) {
  for (const char* shared : {"parallel.share_devices=false", "parallel.share_devices=true"}) {
    fake_cuda::reset({.gpus = 1});
    std::string message;
    try {
      train_in_threads(job("two", on_gpus({"parallel.pipeline=2", shared})));
    } catch (const transport::LaunchError& error) {
      message = error.what();
    }
    EXPECT_THAT(message, AllOf(HasSubstr("have the same GPU"), HasSubstr("comm.transport = \"inproc\""),
                               HasSubstr("parallel.share_devices = true")));
  }
  fake_cuda::reset({.gpus = 2});
  std::string message;
  try {
    train_in_threads(job("three", on_gpus({"parallel.pipeline=3"})));
  } catch (const transport::LaunchError& error) {
    message = error.what();
  }
  EXPECT_THAT(message,
              AllOf(HasSubstr("3 ranks on this host and 2 GPUs"), HasSubstr("start 2 ranks a host")));
}

TEST_F(NcclTraining, WithoutAGpuItIsRefused) {
  std::string message;
  try {
    train_in_threads(job("none", {"parallel.device=cpu"}));
  } catch (const transport::LaunchError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("carries messages between GPUs"));
}

}  // namespace
}  // namespace penstock
