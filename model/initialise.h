#pragma once

#include <cstdint>
#include <string_view>

#include "model/parameter.h"

namespace penstock::model {

/// A normal deviate (mean 0, variance 1): a pure function of (seed, global name, element), so that it does
/// not depend on where, or by how many threads, a parameter is initialised (contract C1 a).
///
/// Elements 2p and 2p + 1 are the Box–Muller pair of philox({low p, high p, low h, purpose << 24 | bits 32…55
/// of h}, seed), h = hash of the name (FNV-1a, 64 bits), computed in double.
class NormalNumbers {
 public:
  NormalNumbers(uint64_t seed, std::string_view name);
  /// Elements [begin, end), times `stddev`, to values[0…end−begin).
  void fill(int64_t begin, int64_t end, double stddev, float* values) const;

 private:
  uint64_t seed_;
  uint64_t hash_;
};

/// The initial values of elements [begin, end) of a parameter, in host memory.
void initial_values(const ParameterSpec& spec, uint64_t seed, int64_t begin, int64_t end, float* values);

}  // namespace penstock::model
