#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

namespace penstock::report {

/// How a number of the bar's unit is written.
enum class ProgressUnit { bytes, count };

struct ProgressOptions {
  std::string label;       ///< "preparing"
  std::string unit = "B";  ///< after the numbers: "B", "tokens"
  ProgressUnit kind = ProgressUnit::bytes;
  std::optional<uint64_t> total;  ///< unknown: no share, no remaining time
  uint64_t before = 0;            ///< done by an earlier process: it says nothing about the rate
};

/// Where a bar is drawn: on a terminal one line is redrawn, at most ten times a second, else (a file, a pipe,
/// NO_COLOR set, TERM=dumb) a plain line appears every ten seconds and one at the end.
struct ProgressTarget {
  std::FILE* stream = stderr;
  bool redraw = false;
  int columns = 80;
  std::function<std::chrono::steady_clock::time_point()> now = [] {
    return std::chrono::steady_clock::now();
  };

  /// Standard error, as it is.
  static ProgressTarget standard_error();
};

/// A bar with share, rate and remaining time. What cannot be written (a closed terminal) is not an error: it
/// must never stop the work it reports.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressOptions options, ProgressTarget target = ProgressTarget::standard_error());
  /// Ends a half-drawn line, so that an error message starts on its own.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` of the total, in all. Cheap when it is not time to draw.
  void update(uint64_t done);

  /// Draws the last line, with the time taken.
  void finish();

 private:
  std::string line(bool last) const;
  void draw(bool last);

  ProgressOptions options_;
  ProgressTarget target_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
  uint64_t done_ = 0;
  bool line_open_ = false;
  bool finished_ = false;
};

/// "512 B", "1.5 MB" (powers of 1000) or "12,345".
std::string format_amount(uint64_t amount, ProgressUnit kind, const std::string& unit);

/// "7.2 s", "3:05", "2:03:05".
std::string format_duration(double seconds);

}  // namespace penstock::report
