#pragma once

#include <vector>

namespace penstock::accounting {

/// The middle value, of two the larger; 0 of none.
double median(std::vector<double> values);

}  // namespace penstock::accounting
