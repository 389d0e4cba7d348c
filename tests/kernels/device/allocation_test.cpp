// Queueing work must not allocate, on any thread.
#include <atomic>

#include "kernels/cpu/stream.h"
#include "tests/allocation_count/allocation_count.h"
#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

TEST(Allocation, TheCounterCounts) {
  const int64_t before = allocations();
  const auto one = std::make_unique<int>(1);
  EXPECT_GT(allocations(), before);
}

class AllocationModes : public EveryMode {};
PENSTOCK_EVERY_MODE(AllocationModes);

TEST_P(AllocationModes, QueueingAllocatesNothing) {
  const auto first = device_->create_stream("first", StreamUse::compute);
  const auto second = device_->create_stream("second", StreamUse::transfer);
  const auto there = device_->create_event("there");
  const auto back = device_->create_event("back");
  const auto signal = device_->create_signal("signal");
  uint64_t count = 0;
  double seconds = 0;
  uint64_t word = 0;
  const int64_t before = allocations();
  for (uint64_t i = 1; i <= 10000; ++i) {
    cpu::CpuStream::of(*first).enqueue("count", [&count] { ++count; });
    first->record(*there);
    second->wait(*there);
    cpu::CpuStream::of(*second).enqueue("count", [&count] { ++count; });
    second->copy(&word, &count, sizeof(word));
    second->stamp(&seconds);
    second->signal(*signal, i);
    first->wait(*signal, i);
    second->record(*back);
    first->wait(*back);
  }
  first->synchronize();
  second->synchronize();
  EXPECT_EQ(allocations() - before, 0);
  EXPECT_EQ(count, 20000u);
}

TEST(Allocation, RunningFarAheadAllocatesNothing) {
  // The most records in flight at once: both queues full of them while the gate is closed.
  const auto device = make_device(StreamMode::queued);
  const auto first = device->create_stream("first", StreamUse::compute);
  const auto second = device->create_stream("second", StreamUse::compute);
  const auto event = device->create_event("event");
  std::atomic<bool> open{false};
  const int64_t before = allocations();
  cpu::CpuStream::of(*first).enqueue("gate", [&open] { open.wait(false); });
  for (uint64_t i = 1; i < cpu::CpuStream::queue_capacity; ++i) {
    first->record(*event);
    second->wait(*event);
  }
  open.store(true);
  open.notify_all();
  second->synchronize();
  EXPECT_EQ(allocations() - before, 0);
}

}  // namespace
}  // namespace penstock::testing
