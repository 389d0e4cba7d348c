#pragma once

#include <cstddef>
#include <vector>

/// Memory that the host and kernels share, for tests of launchers. A binary links one definition: for kernels
/// on the SIMT harness, or for those on a GPU (tests/kernels/gpu).
namespace penstock::testing {

namespace kernel_memory {
void* reserve(size_t bytes);
void release(void* memory) noexcept;
/// The host may read again when what was launched on the default stream is done.
void finish();
}  // namespace kernel_memory

template <class T>
struct KernelAllocator {
  using value_type = T;
  KernelAllocator() = default;
  template <class Other>
  explicit KernelAllocator(const KernelAllocator<Other>& /*other*/) {}
  T* allocate(size_t count) { return static_cast<T*>(kernel_memory::reserve(count * sizeof(T))); }
  void deallocate(T* memory, size_t /*count*/) { kernel_memory::release(memory); }
  bool operator==(const KernelAllocator& /*other*/) const { return true; }
};

template <class T>
using KernelVector = std::vector<T, KernelAllocator<T>>;

}  // namespace penstock::testing
