#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_writer.h"

namespace penstock {

/// What of the values that a rank is about to save is NaN or infinite, in words that name the first tensor
/// and the rank; "" where everything is finite. Host memory, read once.
std::string nonfinite_values(const std::vector<checkpoint::Source>& sources, int rank);

}  // namespace penstock
