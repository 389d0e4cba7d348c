#pragma once

#include <cstdint>

#include "kernels/cuda/shared_memory.cuh"

/// Copies from global to shared memory that run while the thread goes on (PTX cp.async, sm_80 and newer).
/// What a thread has started since its last commit is a group; wait_async<N>() returns when all of its groups
/// but the latest N have landed. Other threads see the data after a __syncthreads() behind that.
namespace penstock::cuda {

#ifdef __CUDACC__
/// 16 bytes, both ends aligned to them; zeros instead unless `present`.
template <class T>
__device__ inline void copy_async(Shared<T> to, const T* from, bool present) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}
__device__ inline void commit_async() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int groups>
__device__ inline void wait_async() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

#else
// The harness's model: data lands when it is waited for, and its place counts as not written until then, so
// that a read without a wait is a fault.
template <class T>
void copy_async(Shared<T> to, const T* from, bool present,
                const std::source_location& place = std::source_location::current()) {
  simt::AsyncBytes bytes{};
  if (present) {
    check_alignment(from, sizeof(bytes), place);
    std::memcpy(&bytes, from, sizeof(bytes));
  }
  simt::start_async_copy(*to.region(), to.address(), bytes, place);
}
inline void commit_async() {
  simt::commit_async_copies();
}
template <int groups>
void wait_async(const std::source_location& place = std::source_location::current()) {
  simt::LandedCopy landed;
  while (simt::next_landed_copy(groups, landed)) {
    simt::check_shared_write(*landed.region, landed.to, sizeof(landed.bytes), sizeof(landed.bytes), place);
    std::memcpy(landed.to, &landed.bytes, sizeof(landed.bytes));
  }
}
#endif

}  // namespace penstock::cuda
