#include "trainer/state_snapshot.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock {
namespace {

size_t bytes_of(const checkpoint::Source& source) {
  return static_cast<size_t>(source.count) * size_of(source.dtype);
}

// Bytes that lie together where they are and where they go.
struct Run {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

}  // namespace

StateSnapshot::StateSnapshot(Device& device)
    : device_(device),
      ready_(device.create_event("state to save")),
      copied_(device.create_event("state copied")),
      stream_(device.create_stream("snapshot", StreamUse::transfer)) {}

size_t StateSnapshot::bytes(const std::vector<checkpoint::Source>& sources) {
  size_t sum = 0;
  for (const checkpoint::Source& source : sources) sum += aligned(bytes_of(source));
  return sum;
}

void StateSnapshot::reserve(size_t bytes) {
  if (bytes == reserved()) return;
  memory_.reset();
  if (bytes > 0) memory_ = device_.create_host_memory("the copy of what is saved", bytes);
}

const Event& StateSnapshot::take(std::vector<checkpoint::Source>& sources, Stream& stream) {
  if (bytes(sources) > reserved()) {
    throw UsageError(
        fmt::format("a copy of {} bytes to save where {} are reserved", bytes(sources), reserved()));
  }
  std::vector<checkpoint::Source*> order;
  for (checkpoint::Source& source : sources) order.push_back(&source);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->data < b->data; });
  // A stream's host is held up by more work than its queue takes: a few long copies, not thousands of short
  // ones.
  std::vector<Run> runs;
  std::byte* next = memory_ ? memory_->as<std::byte>() : nullptr;
  for (checkpoint::Source* source : order) {
    const auto* from = static_cast<const std::byte*>(source->data);
    if (!runs.empty() && runs.back().from + (next - runs.back().to) == from) {
      runs.back().bytes = static_cast<size_t>(next - runs.back().to) + bytes_of(*source);
    } else {
      runs.push_back({next, from, bytes_of(*source)});
    }
    source->data = next;
    next += aligned(bytes_of(*source));
  }
  stream.record(*ready_);
  stream_->wait(*ready_);
  for (const Run& run : runs) stream_->copy(run.to, run.from, run.bytes);
  stream_->record(*copied_);
  return *copied_;
}

}  // namespace penstock
