// After the first steps a step allocates nothing on the thread that enqueues it.
#include <gtest/gtest.h>

#include "tests/allocation_count/allocation_count.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

TEST(Step, AllocatesNothingAfterTheFirst) {
  for (const auto& [schedule, chunks, replicas] : {std::tuple("1f1b", 1, 2), std::tuple("zbv", 2, 1)}) {
    const Job job = make_job(tiny_gpt2(), 2, schedule, chunks, 4, replicas);
    run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
      std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
      const std::vector<model::SideBand> bands = bands_of(batches);
      int64_t after_first = 0;
      for (uint64_t step = 0; step < 3; ++step) {
        engine.start_step({step, 1e-2, 1}, bands);
        engine.finish_step();
        if (step == 0) after_first = allocations_of_this_thread();
      }
      EXPECT_EQ(allocations_of_this_thread(), after_first)
          << job.request.parallel.schedule << ", rank " << world.rank();
    });
  }
}

}  // namespace
}  // namespace penstock::testing
