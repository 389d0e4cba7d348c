// Counts every operator new of this binary, on all threads: queueing work must not allocate.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/kernels/device/device_fixture.h"

namespace {
std::atomic<uint64_t> allocations{0};

void* counted(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace penstock::cpu {
namespace {

TEST(Allocation, TheCounterCounts) {
  const uint64_t before = allocations.load();
  const auto one = std::make_unique<int>(1);
  EXPECT_GT(allocations.load(), before);
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
  const uint64_t before = allocations.load();
  for (uint64_t i = 1; i <= 10000; ++i) {
    CpuStream::of(*first).enqueue("count", [&count] { ++count; });
    first->record(*there);
    second->wait(*there);
    CpuStream::of(*second).enqueue("count", [&count] { ++count; });
    second->copy(&word, &count, sizeof(word));
    second->stamp(&seconds);
    second->signal(*signal, i);
    first->wait(*signal, i);
    second->record(*back);
    first->wait(*back);
  }
  first->synchronize();
  second->synchronize();
  EXPECT_EQ(allocations.load() - before, 0u);
  EXPECT_EQ(count, 20000u);
}

TEST(Allocation, RunningFarAheadAllocatesNothing) {
  // The most records in flight at once: both queues full of them while the gate is closed.
  const auto device = make_device(StreamMode::queued);
  const auto first = device->create_stream("first", StreamUse::compute);
  const auto second = device->create_stream("second", StreamUse::compute);
  const auto event = device->create_event("event");
  std::atomic<bool> open{false};
  const uint64_t before = allocations.load();
  CpuStream::of(*first).enqueue("gate", [&open] { open.wait(false); });
  for (uint64_t i = 1; i < CpuStream::queue_capacity; ++i) {
    first->record(*event);
    second->wait(*event);
  }
  open.store(true);
  open.notify_all();
  second->synchronize();
  EXPECT_EQ(allocations.load() - before, 0u);
}

}  // namespace
}  // namespace penstock::cpu
