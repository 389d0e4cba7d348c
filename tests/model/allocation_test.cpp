// After the first step a step allocates nothing on the device, nothing on the enqueuing thread, and leaves
// nothing behind on the stream's threads (oneDNN allocates inside a product and frees it there).
#include <gtest/gtest.h>

#include "tests/allocation_count/allocation_count.h"
#include "tests/model/pipeline.h"

namespace penstock::testing {
namespace {

TEST(Step, AllocatesNothingAfterTheFirst) {
  for (const ModelSection& family : {small_gpt2(), small_llama()}) {
    PipelineOptions options;
    options.model = family;
    options.model.dropout = 0.1;
    options.recompute = RecomputeMode::selective;
    options.threads = 2;
    Pipeline pipeline(options);
    model::RankModel& rank = pipeline.model();
    HostBatch batch = random_batch(options.model, options.micro_batch, 0);
    const model::SideBand band = batch.band(false);
    const auto step = [&](uint64_t number) {
      Stream& stream = pipeline.stream();
      rank.optimizer().begin(stream, {number, 1e-3, 1});
      rank.zero_losses(stream);
      rank.stage(0).forward(stream, {}, 0, band, model::Pass::training);
      rank.stage(0).backward_input(stream, {}, 0);
      rank.stage(0).backward_weight(stream, {});
      rank.optimizer().finish(stream);
      return rank.read(stream).loss_sum;
    };
    const double first = step(0);
    const size_t device_bytes = pipeline.device().arena(ArenaTag::workspace).used();
    const int64_t live_before = live_allocations();
    const int64_t allocations_before = allocations_of_this_thread();
    const double second = step(1);
    EXPECT_EQ(allocations_of_this_thread(), allocations_before) << "on the thread that enqueues";
    EXPECT_EQ(live_allocations(), live_before) << "left behind";
    EXPECT_EQ(pipeline.device().arena(ArenaTag::workspace).used(), device_bytes);
    EXPECT_NE(first, second);
  }
}

}  // namespace
}  // namespace penstock::testing
