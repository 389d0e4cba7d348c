#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "tests/kernels/math/operation.h"

namespace penstock::testing {

/// A source of random shapes of its own for every use, from test_seed().
inline std::mt19937_64 random_shapes(uint64_t use) {
  return std::mt19937_64(test_seed() * 1000003 + use);
}

/// In [1, most], every order of magnitude alike: mostly odd, unaligned and small.
inline int64_t random_size(std::mt19937_64& random, int64_t most) {
  const double exponent = std::uniform_real_distribution<double>(0, 1)(random);
  return static_cast<int64_t>(std::pow(static_cast<double>(most) + 0.999, exponent));
}

}  // namespace penstock::testing
