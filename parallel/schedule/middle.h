#pragma once

#include <algorithm>
#include <span>

namespace penstock::schedule {

/// The middle value, of two the larger; 0 of none. Changes their order. Micro-batch latency is this, measured
/// and predicted.
inline double middle(std::span<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace penstock::schedule
