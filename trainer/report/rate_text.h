#pragma once

#include <fmt/format.h>

namespace penstock::report {

/// "812", "21.6k", "1.23M". Allocates nothing once the buffer is large enough.
void append_rate(double rate, fmt::memory_buffer& text);
/// "162.4 MiB", "1.23 GiB".
void append_memory(double bytes, fmt::memory_buffer& text);

}  // namespace penstock::report
