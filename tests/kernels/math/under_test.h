#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cpu/device.h"
#include "kernels/device/device.h"

/// Which implementation the tests of this folder test. They are built for the CPU, for CUDA with its kernels
/// under the SIMT harness (PENSTOCK_SIMT), and for CUDA as it is (PENSTOCK_GPU: tests/kernels/gpu).
#if defined(PENSTOCK_SIMT) || defined(PENSTOCK_GPU)
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cached_attention.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/reduce.h"
#include "kernels/math/gemm.h"
#include "kernels/math/head.h"
#ifdef PENSTOCK_SIMT
#include "tests/simt/machine.h"
#endif
#else
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cached_attention.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/processor.h"
#include "kernels/cpu/reduce.h"
#endif

/// A variant is a way of running that must not change a bit; `shifts` are the places of arguments in memory,
/// in elements behind an aligned address. Operations with matrix products take multiples of `product_shift`.
namespace penstock::testing::under_test {

#if defined(PENSTOCK_SIMT) || defined(PENSTOCK_GPU)
using namespace penstock::cuda;

inline constexpr int64_t most_head_block = 64;  ///< tokens
/// Over cuBLASLt, or what plays its part; the head's blocks as small as it makes them.
std::unique_ptr<math::Gemm> make_gemm(Device& device);
std::unique_ptr<math::Head> make_head(Device& device);
/// Matrices must be aligned.
inline constexpr size_t product_shift = alignment_bytes;
inline bool multiplies_bf16() {
  return true;
}

#ifdef PENSTOCK_GPU
/// A GPU takes its threads as they come: another run may show what depends on that.
inline constexpr int variants = 2;
inline constexpr std::array<size_t, 2> shifts = {0, 1};
inline constexpr bool every_combination = true;
inline void choose_variant(int /*variant*/) {}
std::unique_ptr<Device> make_device(int variant);
inline std::string name_of_variant(int variant) {
  return "run " + std::to_string(variant + 1);
}
#else
/// In which order the threads of a block, and the blocks, take their turns. The sanitizers see the same in
/// any, and races do not depend on the place.
inline constexpr std::array<const char*, 3> orders = {"threads ascending", "threads descending",
                                                      "threads shuffled"};
#ifdef PENSTOCK_SIMT_THREAD
inline constexpr int variants = 1;
inline constexpr std::array<size_t, 1> shifts = {0};
#elif defined(PENSTOCK_SIMT_ADDRESS)
inline constexpr int variants = 1;
inline constexpr std::array<size_t, 2> shifts = {0, 1};
#else
inline constexpr int variants = 3;
inline constexpr std::array<size_t, 2> shifts = {0, 1};
#endif
inline constexpr bool every_combination = false;  ///< of variants and places in memory

inline DeviceOptions choose_variant(int variant) {
  simt::set_order(static_cast<simt::Order>(variant));
  DeviceOptions options;
  options.mode = StreamMode::inline_now;
  return options;
}
inline std::string name_of_variant(int variant) {
  return orders[static_cast<size_t>(variant)];
}
#endif
#else
using namespace penstock::cpu;

inline constexpr int64_t most_head_block = 1024;  ///< tokens
inline constexpr size_t product_shift = 1;
inline bool multiplies_bf16() {
  return processor_has_bf16();
}

/// Numbers of threads.
inline constexpr int variants = 4;
inline constexpr std::array<size_t, 4> shifts = {0, 256, 1, 771};
inline constexpr bool every_combination = true;

inline DeviceOptions choose_variant(int variant) {
  DeviceOptions options;
  options.threads = variant + 1;
  return options;
}
inline std::string name_of_variant(int variant) {
  return std::to_string(variant + 1) + " threads";
}
#endif
#ifndef PENSTOCK_GPU
inline std::unique_ptr<Device> make_device(int variant) {
  return penstock::cpu::make_cpu_device(choose_variant(variant));
}
#endif

}  // namespace penstock::testing::under_test
