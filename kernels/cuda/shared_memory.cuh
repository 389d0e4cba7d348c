#pragma once

#include <cstdint>

/// Shared memory, so that the harness can check every access: Shared<T> is a pointer, SHARED_ARRAY declares a
/// static array, dynamic_shared() is what the launch asked for.
namespace penstock::cuda {

#ifdef __CUDACC__
template <class T>
using Shared = T*;

#define SHARED_ARRAY(type, name, count) __shared__ __align__(16) type name[count]

template <class T>
__device__ inline Shared<T> dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
}
/// Four floats at once; the pointer is a multiple of 16 bytes.
__device__ inline float4 load4(Shared<const float> from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ inline void store4(Shared<float> to, float4 value) {
  *reinterpret_cast<float4*>(to) = value;
}
/// For the harness: faults if an address is not a multiple of `alignment`, as the device would.
__device__ inline void check_alignment(const void* /*address*/, unsigned /*alignment*/) {}

#else
template <class T>
using Shared = simt::SharedPointer<T>;

#define SHARED_ARRAY(type, name, count) \
  static thread_local constinit ::penstock::simt::SharedArray<type, count> name(#name)

template <class T>
Shared<T> dynamic_shared() {
  const simt::SharedRegion* const region = simt::dynamic_shared_region();
  return Shared<T>(reinterpret_cast<T*>(region->begin), region);
}
inline float4 load4(Shared<const float> from,
                    const std::source_location& place = std::source_location::current()) {
  simt::check_shared_read(*from.region(), from.address(), sizeof(float4), sizeof(float4), place);
  const float* const p = from.address();
  return make_float4(p[0], p[1], p[2], p[3]);
}
inline void store4(Shared<float> to, float4 value,
                   const std::source_location& place = std::source_location::current()) {
  simt::check_shared_write(*to.region(), to.address(), sizeof(float4), sizeof(float4), place);
  float* const p = to.address();
  p[0] = value.x;
  p[1] = value.y;
  p[2] = value.z;
  p[3] = value.w;
}
inline void check_alignment(const void* address, unsigned alignment,
                            const std::source_location& place = std::source_location::current()) {
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0) simt::fault("a misaligned access", place);
}
#endif

}  // namespace penstock::cuda
