// Links are measured in an order that NCCL, which runs a communicator's operations one after another, can
// follow.
#include <gmock/gmock.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "kernels/transport/nccl_world.h"
#include "parallel/runtime/link_profiler.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/parallel/runtime/rank_backend.h"

namespace penstock::testing {
namespace {

TEST(NcclLinks, AreMeasuredWithoutBuffering) {
  for (const int ranks : {2, 3}) {
    fake_cuda::reset({.gpus = 3, .communication_kernels = 1});
    transport::run_inproc(ranks, {}, [&](transport::World& hosts) {
      const auto world = transport::make_nccl_world(hosts);
      const transport::AbortOnUnwind abort(*world);
      DeviceOptions options;
      options.rank = world->rank();
      RankBackend backend = make_rank_backend(options, world.get());
      const auto pipeline = world->create("pipeline");
      const auto links = runtime::measure_links(*backend.device, *world, *pipeline, 5000, 3);
      EXPECT_EQ(links.size(), ranks == 2 ? 2u : 6u);
      for (const planner::MeasuredLink& link : links) {
        EXPECT_GT(link.latency, 0);
        EXPECT_GT(link.bandwidth.value_or(0), 0);
      }
      EXPECT_FALSE(backend.device->has_arena(ArenaTag::communication));
    });
    EXPECT_EQ(fake_cuda::lost_because(), "");
  }
}

}  // namespace
}  // namespace penstock::testing
