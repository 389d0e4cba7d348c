#pragma once

#include <cstdint>

#include "kernels/cpu/lanes.h"

namespace penstock::cpu {

/// C (rows, 16 · vectors) = or += A (rows, depth) · B (depth, 16 · vectors), all fp32, in registers tile by
/// tile. An element is one chain of fused multiply-adds over ascending depth that starts at 0 or at C, so its
/// bits do not depend on how the product is cut.
struct TileProduct {
  const float* a = nullptr;
  int64_t a_row = 0;    ///< floats from a row of A to the next
  int64_t a_depth = 0;  ///< floats from a column of A to the next: A may be stored transposed
  const float* b = nullptr;
  int64_t b_depth = 0;  ///< floats from a row of B to the next
  float* c = nullptr;
  int64_t c_row = 0;  ///< floats from a row of C to the next
  int64_t rows = 0;
  int64_t vectors = 0;
  int64_t depth = 0;
  bool accumulate = false;
};

void multiply(const TileProduct& product);

}  // namespace penstock::cpu
