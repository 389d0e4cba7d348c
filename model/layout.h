#pragma once

#include <cstdint>

namespace penstock::model {

/// Elements [begin, end) of a parameter in its global, row-major order: what one rank holds of it. Every
/// place that stores, moves or reduces a parameter names it by (global name, slice).
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t elements() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

/// Among whom a gradient is summed: all replicas, those that share an expert, or nobody because each computes
/// the same.
enum class ReductionGroup : uint8_t { dense, expert, replicated };

}  // namespace penstock::model
