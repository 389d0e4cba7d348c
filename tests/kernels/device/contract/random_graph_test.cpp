#include "tests/kernels/device/contract/random_graph.h"

#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

class RandomGraph : public EveryMode {};
PENSTOCK_EVERY_MODE(RandomGraph);

TEST_P(RandomGraph, RealTimeKeepsEveryOrder) {
  for (uint64_t seed = 101; seed <= 125; ++seed) {
    const Graph graph = random_graph(seed);
    const Outcome result = execute(graph, GetParam(), false, seed);
    ASSERT_EQ(result.state, graph.state) << "seed " << seed;
    std::array<double, streams> latest{};
    for (const Operation& op : graph.operations) {
      if (op.kind != Kind::stamp) continue;
      ASSERT_GE(result.stamps[op.snapshot], latest[op.stream]) << "seed " << seed;
      latest[op.stream] = result.stamps[op.snapshot];
    }
  }
}

}  // namespace
}  // namespace penstock::testing
