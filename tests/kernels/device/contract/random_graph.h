#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device/device.h"

/// Random graphs of streams, events and signals on two ranks, and what they must lead to, by a plain
/// sequential reading of the rules.
namespace penstock::testing {

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

/// A legal sequence of operations, and what it must lead to. State: a hash of everything that happened
/// before.
struct Graph {
  std::vector<Operation> operations;
  size_t snapshots = 0;
  std::array<uint64_t, streams> state{};
  std::array<double, events> event_seconds{};  ///< negative: never recorded
  std::vector<double> stamps;
};

Graph random_graph(uint64_t seed);

struct Outcome {
  std::array<uint64_t, streams> state{};
  std::array<double, events> event_seconds{};
  std::vector<double> stamps;
};

/// Runs the graph on a device a rank.
Outcome execute(const Graph& graph, StreamMode mode, bool virtual_clock, uint64_t seed);

}  // namespace penstock::testing
