#include "tests/kernels/device/contract/random_graph.h"

#include <algorithm>
#include <random>
#include <thread>

#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

uint64_t mixed(uint64_t state, uint64_t value) {
  return (state ^ value) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
}

}  // namespace

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

Outcome execute(const Graph& graph, StreamMode mode, bool virtual_clock, uint64_t seed) {
  std::vector<std::unique_ptr<Device>> devices;
  for (size_t rank = 0; rank < ranks; ++rank) {
    DeviceOptions options;
    options.rank = static_cast<int>(rank);
    options.mode = mode;
    options.shuffle_seed = seed;
    options.clock = virtual_clock ? make_virtual_clock() : make_real_clock();
    devices.push_back(make_device(options));
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
    Stream& on = *stream[op.stream];
    uint64_t& state = result.state[op.stream];
    uint64_t* snapshot = op.kind == Kind::stamp ? nullptr : snapshots.data() + op.snapshot;
    const auto leave = [&state, snapshot] { *snapshot = state; };
    const auto take_over = [&state, snapshot] { state = mixed(state, *snapshot); };
    switch (op.kind) {
      case Kind::work:
        enqueue(on, "work", op.cost, [&state, value = op.value] { state = mixed(state, value); });
        break;
      case Kind::record:
        enqueue(on, "leave", leave);
        on.record(*event[op.object]);
        break;
      case Kind::wait_event:
        on.wait(*event[op.object]);
        if (op.takes_over) enqueue(on, "take over", take_over);
        break;
      case Kind::signal:
        enqueue(on, "leave", leave);
        on.signal(*signal[op.object], op.value);
        break;
      case Kind::wait_signal:
        on.wait(*signal[op.object], op.value);
        if (op.takes_over) enqueue(on, "take over", take_over);
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

}  // namespace penstock::testing
