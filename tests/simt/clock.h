#pragma once

#include <cstdint>

namespace penstock::simt {

/// From now on nanoseconds() is that far from the host's steady clock.
void set_clock_ahead(int64_t nanoseconds);

}  // namespace penstock::simt
