// Virtual time, which only the processor's streams have.
#include <array>

#include <gtest/gtest.h>

#include "tests/kernels/device/contract/device_under_test.h"
#include "tests/kernels/device/contract/random_graph.h"

namespace penstock::testing {
namespace {

class VirtualGraph : public EveryMode {};
PENSTOCK_EVERY_MODE(VirtualGraph);

TEST_P(VirtualGraph, VirtualTimeIsExact) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    const Graph graph = random_graph(seed);
    const Outcome result = execute(graph, GetParam(), true, seed);
    ASSERT_EQ(result.state, graph.state) << "seed " << seed;
    ASSERT_EQ(result.stamps, graph.stamps) << "seed " << seed;
    ASSERT_EQ(result.event_seconds, graph.event_seconds) << "seed " << seed;
  }
}

TEST(VirtualTime, AWaitTakesTheFirstWriteThatReachedItsValue) {
  const auto device = make_device(StreamMode::queued, 0, make_virtual_clock());
  const auto writer = device->create_stream("writer", StreamUse::compute);
  const auto signal = device->create_signal("signal");
  for (uint64_t i = 1; i <= 3000; ++i) {  // far more than the history reserves
    writer->host_task("work", 1.0, [] {});
    writer->signal(*signal, 2 * i);
  }
  writer->synchronize();
  const auto reader = device->create_stream("reader", StreamUse::compute);
  std::array<double, 4> stamps{};
  const std::array<uint64_t, 4> values{1, 2, 3001, 6000};
  for (size_t i = 0; i < values.size(); ++i) {
    reader->wait(*signal, values[i]);
    reader->stamp(&stamps[i]);
  }
  reader->synchronize();
  EXPECT_EQ(stamps, (std::array<double, 4>{1, 1, 1501, 3000}));
}

TEST(VirtualTime, BelongsToStreams) {
  const auto clock = make_virtual_clock();
  EXPECT_TRUE(clock->is_virtual());
  EXPECT_THROW(static_cast<void>(clock->now()), UsageError);
  const auto real = make_real_clock();
  EXPECT_FALSE(real->is_virtual());
  const double before = real->now();
  EXPECT_GE(real->now(), before);
}

TEST(VirtualTime, SecondsBelongToTheLatestRecord) {
  const auto replay = make_device(StreamMode::queued, 0, make_virtual_clock());
  const auto stream = replay->create_stream("replay", StreamUse::compute);
  const auto event = replay->create_event("event");
  stream->host_task("three", 3.0, [] {});
  stream->record(*event);
  stream->host_task("four", 4.0, [] {});
  stream->record(*event);
  event->synchronize();
  EXPECT_EQ(event->seconds(), 7.0);
}

}  // namespace
}  // namespace penstock::testing
