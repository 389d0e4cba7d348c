// An error on one rank ends all of them, with its reason; nobody hangs and nobody goes on.
#include <atomic>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  std::string first;  ///< what reached the caller
  int finished = 0;   ///< ranks that finished the step that failed
};

Outcome run_with(const Job& job, const std::function<void(runtime::PipelineEngine&, int step)>& before) {
  std::atomic<int> finished{0};
  Outcome outcome;
  try {
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
      std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
      const std::vector<model::SideBand> bands = bands_of(batches);
      for (int step = 0; step < 2; ++step) {
        before(engine, step);
        engine.start_step({static_cast<uint64_t>(step), 1e-2, 1}, bands);
        engine.finish_step();
        finished += step;
      }
    });
  } catch (const std::exception& error) {
    outcome.first = error.what();
  }
  outcome.finished = finished;
  return outcome;
}

TEST(Failure, OfAKernelEndsAllRanks) {
  for (const auto& [schedule, ranks, chunks, replicas] :
       {std::tuple("1f1b", 3, 1, 1), std::tuple("zbv", 2, 2, 1), std::tuple("1f1b", 2, 1, 2)}) {
    const Job job = make_job(tiny_gpt2(), ranks, schedule, chunks, 4, replicas);
    const Outcome outcome = run_with(job, [](runtime::PipelineEngine& engine, int step) {
      if (step == 1 && engine.place() == runtime::Place{1, 0}) {
        engine.stream().host_task("injected", 0, [] { throw std::runtime_error("a kernel broke"); });
      }
    });
    EXPECT_EQ(outcome.finished, 0) << schedule;
    EXPECT_THAT(outcome.first, HasSubstr("a kernel broke")) << schedule;
    EXPECT_THAT(outcome.first, HasSubstr("\"injected\"")) << schedule;
  }
}

TEST(Failure, OfAHostEndsAllRanks) {
  const Outcome outcome =
      run_with(make_job(tiny_llama(), 4, "1f1b"), [](runtime::PipelineEngine& engine, int step) {
        if (step == 1 && engine.place().pipeline == 2) throw std::runtime_error("the data ran out");
      });
  EXPECT_EQ(outcome.finished, 0);
  EXPECT_EQ(outcome.first, "the data ran out");
}

TEST(Failure, OfOneRanksInputsEndsAllRanks) {
  const Job job = make_job(tiny_llama(), 2, "1f1b");
  std::string first;
  try {
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
      std::vector<HostBatch> batches = batches_of(job, 0, 0);
      const std::vector<model::SideBand> bands = bands_of(batches, true, world.rank() != 1);
      engine.start_step({0, 1e-2, 1}, bands);
      engine.finish_step();
      ADD_FAILURE() << "rank " << world.rank() << " finished";
    });
  } catch (const std::exception& error) {
    first = error.what();
  }
  EXPECT_THAT(first, HasSubstr("targets"));
}

}  // namespace
}  // namespace penstock::testing
