// Random graphs of streams, events and signals on two ranks, run in every mode and on both clocks, against a
// plain sequential reading of the rules.
#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <vector>

#include "tests/kernels/device/device_fixture.h"

namespace penstock::cpu {
namespace {

constexpr size_t ranks = 2;
constexpr size_t streams_per_rank = 3;
constexpr size_t streams = ranks * streams_per_rank;
constexpr size_t events_per_rank = 3;
constexpr size_t events = ranks * events_per_rank;

enum class Kind { work, record, wait_event, signal, wait_signal, stamp };

struct Operation {
  Kind kind = Kind::work;
  size_t stream = 0;
  size_t object = 0;   ///< event, or signal (signal i is written by stream i)
  uint64_t value = 0;  ///< signal
  double cost = 0;
  size_t snapshot =
      0;  ///< record, signal: where the stream's state is left; waits: whose state is taken over
  bool takes_over = false;
};

uint64_t mixed(uint64_t state, uint64_t value) {
  return (state ^ value) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
}

/// A legal sequence of operations, and what it must lead to. State: a hash of everything that happened
/// before.
struct Graph {
  std::vector<Operation> operations;
  size_t snapshots = 0;
  std::array<uint64_t, streams> state{};
  std::array<double, events> event_seconds{};  ///< negative: never recorded
  std::vector<double> stamps;
};

Graph random_graph(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](uint64_t bound) { return static_cast<size_t>(random() % bound); };
  struct Point {
    uint64_t value;
    double seconds;
    uint64_t state;
    size_t snapshot;
  };
  Graph graph;
  graph.event_seconds.fill(-1);
  std::array<double, streams> now{};
  std::array<std::vector<Point>, events> recorded;
  std::array<std::vector<Point>, streams> written;
  const size_t count = 100 + below(700);
  for (size_t i = 0; i < count; ++i) {
    Operation op;
    op.kind = static_cast<Kind>(below(6));
    op.stream = below(streams);
    uint64_t& state = graph.state[op.stream];
    double& time = now[op.stream];
    op.object = op.stream / streams_per_rank * events_per_rank + below(events_per_rank);
    switch (op.kind) {
      case Kind::work:
        op.cost = static_cast<double>(random()) * 0x1p-60;
        op.value = random();
        state = mixed(state, op.value);
        time += op.cost;
        break;
      case Kind::record:
        op.snapshot = graph.snapshots++;
        recorded[op.object].push_back({0, time, state, op.snapshot});
        graph.event_seconds[op.object] = time;
        break;
      case Kind::wait_event:
        if (!recorded[op.object].empty()) {
          const Point& latest = recorded[op.object].back();
          op.takes_over = true;
          op.snapshot = latest.snapshot;
          state = mixed(state, latest.state);
          time = std::max(time, latest.seconds);
        }
        break;
      case Kind::signal: {
        op.object = op.stream;
        op.snapshot = graph.snapshots++;
        op.value = (written[op.object].empty() ? 0 : written[op.object].back().value) + 1 + below(3);
        written[op.object].push_back({op.value, time, state, op.snapshot});
        break;
      }
      case Kind::wait_signal: {
        op.object = below(streams);
        const std::vector<Point>& writes = written[op.object];
        op.value = writes.empty() ? 0 : below(writes.back().value + 1);
        if (op.value > 0) {
          const Point& first = *std::find_if(writes.begin(), writes.end(),
                                             [&](const Point& p) { return p.value >= op.value; });
          op.takes_over = true;
          op.snapshot = first.snapshot;
          state = mixed(state, first.state);
          time = std::max(time, first.seconds);
        }
        break;
      }
      case Kind::stamp:
        op.snapshot = graph.stamps.size();
        graph.stamps.push_back(time);
        break;
    }
    graph.operations.push_back(op);
  }
  return graph;
}

struct Outcome {
  std::array<uint64_t, streams> state{};
  std::array<double, events> event_seconds{};
  std::vector<double> stamps;
};

Outcome execute(const Graph& graph, StreamMode mode, bool virtual_clock, uint64_t seed) {
  std::vector<std::unique_ptr<Device>> devices;
  for (size_t rank = 0; rank < ranks; ++rank) {
    DeviceOptions options;
    options.rank = static_cast<int>(rank);
    options.mode = mode;
    options.shuffle_seed = seed;
    options.clock = virtual_clock ? make_virtual_clock() : make_real_clock();
    devices.push_back(make_cpu_device(options));
  }
  std::vector<std::unique_ptr<Signal>> signal;
  std::vector<std::unique_ptr<Stream>> stream;
  std::vector<std::unique_ptr<Event>> event;
  for (size_t i = 0; i < streams; ++i) {
    Device& device = *devices[i / streams_per_rank];
    signal.push_back(device.create_signal("signal " + std::to_string(i)));
    stream.push_back(device.create_stream("stream " + std::to_string(i), StreamUse::transfer));
  }
  for (size_t i = 0; i < events; ++i)
    event.push_back(devices[i / events_per_rank]->create_event("event " + std::to_string(i)));

  Outcome result;
  result.stamps.resize(graph.stamps.size(), -1);
  std::vector<uint64_t> snapshots(graph.snapshots);
  const auto queue = [&](const Operation& op) {
    CpuStream& on = CpuStream::of(*stream[op.stream]);
    uint64_t& state = result.state[op.stream];
    uint64_t* snapshot = op.kind == Kind::stamp ? nullptr : snapshots.data() + op.snapshot;
    const auto leave = [&state, snapshot] { *snapshot = state; };
    const auto take_over = [&state, snapshot] { state = mixed(state, *snapshot); };
    switch (op.kind) {
      case Kind::work:
        on.enqueue("work", op.cost, [&state, value = op.value] { state = mixed(state, value); });
        break;
      case Kind::record:
        on.enqueue("leave", leave);
        on.record(*event[op.object]);
        break;
      case Kind::wait_event:
        on.wait(*event[op.object]);
        if (op.takes_over) on.enqueue("take over", take_over);
        break;
      case Kind::signal:
        on.enqueue("leave", leave);
        on.signal(*signal[op.object], op.value);
        break;
      case Kind::wait_signal:
        on.wait(*signal[op.object], op.value);
        if (op.takes_over) on.enqueue("take over", take_over);
        break;
      case Kind::stamp:
        on.stamp(&result.stamps[op.snapshot]);
        break;
    }
  };

  if (mode == StreamMode::inline_now) {
    for (const Operation& op : graph.operations) queue(op);
  } else {
    // A host thread a rank: signals are now waited for before they are written, in one direction or the
    // other.
    std::vector<std::thread> hosts;
    for (size_t rank = 0; rank < ranks; ++rank) {
      hosts.emplace_back([&, rank] {
        for (const Operation& op : graph.operations) {
          if (op.stream / streams_per_rank == rank) queue(op);
        }
      });
    }
    for (std::thread& host : hosts) host.join();
  }
  for (const auto& each : stream) each->synchronize();
  for (size_t i = 0; i < events; ++i) {
    EXPECT_TRUE(event[i]->query());
    result.event_seconds[i] = graph.event_seconds[i] < 0 ? -1 : event[i]->seconds();
  }
  return result;
}

class RandomGraph : public EveryMode {};
PENSTOCK_EVERY_MODE(RandomGraph);

TEST_P(RandomGraph, VirtualTimeIsExact) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    const Graph graph = random_graph(seed);
    const Outcome result = execute(graph, GetParam(), true, seed);
    ASSERT_EQ(result.state, graph.state) << "seed " << seed;
    ASSERT_EQ(result.stamps, graph.stamps) << "seed " << seed;
    ASSERT_EQ(result.event_seconds, graph.event_seconds) << "seed " << seed;
  }
}

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

}  // namespace
}  // namespace penstock::cpu
