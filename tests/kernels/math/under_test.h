#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "kernels/device/device.h"

/// Which implementation the tests of this folder test. They are built twice: for the CPU, and (PENSTOCK_SIMT)
/// for CUDA, whose kernels run under the SIMT harness.
#ifdef PENSTOCK_SIMT
#include "kernels/cuda/attention.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/reduce.h"
#include "tests/simt/machine.h"
#else
#include "kernels/cpu/attention.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/reduce.h"
#endif

/// A variant is a way of running that must not change a bit.
namespace penstock::testing::under_test {

#ifdef PENSTOCK_SIMT
using namespace penstock::cuda;

/// In which order the threads of a block, and the blocks, take their turns.
inline constexpr std::array<const char*, 3> orders = {"threads ascending", "threads descending",
                                                      "threads shuffled"};
inline constexpr int variants = 3;
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
#else
using namespace penstock::cpu;

/// Numbers of threads.
inline constexpr int variants = 4;
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

}  // namespace penstock::testing::under_test
