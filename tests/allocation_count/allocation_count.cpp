#include "tests/allocation_count/allocation_count.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> all{0};
std::atomic<int64_t> live{0};
thread_local int64_t here = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
  all.fetch_add(1, std::memory_order_relaxed);
  live.fetch_add(1, std::memory_order_relaxed);
  ++here;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void freed(void* memory) noexcept {
  if (memory != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// The forms for arrays call these.
void* operator new(std::size_t bytes) {
  return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  freed(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  freed(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  freed(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  freed(memory);
}

namespace penstock {

int64_t allocations() {
  return all.load(std::memory_order_relaxed);
}
int64_t allocations_of_this_thread() {
  return here;
}
int64_t live_allocations() {
  return live.load(std::memory_order_relaxed);
}

}  // namespace penstock
