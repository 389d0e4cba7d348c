#include "trainer/report/rate_text.h"

#include <iterator>

namespace penstock::report {

void append_rate(double rate, fmt::memory_buffer& text) {
  const auto out = std::back_inserter(text);
  if (rate < 9999.5) {
    fmt::format_to(out, "{:.0f}", rate);
  } else if (rate < 999.95e3) {
    fmt::format_to(out, "{:.1f}k", rate / 1e3);
  } else {
    fmt::format_to(out, "{:.2f}M", rate / 1e6);
  }
}

void append_memory(double bytes, fmt::memory_buffer& text) {
  const double mib = bytes / (1 << 20);
  const auto out = std::back_inserter(text);
  if (mib < 1023.95) {
    fmt::format_to(out, "{:.1f} MiB", mib);
  } else {
    fmt::format_to(out, "{:.2f} GiB", mib / 1024);
  }
}

}  // namespace penstock::report
