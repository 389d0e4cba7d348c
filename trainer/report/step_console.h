#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "trainer/report/step_metrics.h"

namespace penstock::report {

/// How steps are shown.
struct ConsoleOptions {
  int64_t total_steps = 0;
  int64_t every_steps =
      1;  ///< a line every so many steps, and one for the first and the last step of this attempt
  bool quiet = false;   ///< neither steps nor notes
  bool redraw = false;  ///< one line, drawn again and again, at most ten times a second
  int columns = 80;
  std::FILE* stream = stdout;
  std::function<std::chrono::steady_clock::time_point()> now = [] {
    return std::chrono::steady_clock::now();
  };
};

/// The console's line a step: step/total, loss, gradient norm, learning rate, tokens/s, matmul share, with
/// several ranks the bubble and the slowest stage, memory, time left. What cannot be written (a closed
/// terminal, a full disk) is not an error: it must never stop the work it reports. Allocates nothing once a
/// line has been written.
class StepConsole {
 public:
  explicit StepConsole(ConsoleOptions options);
  /// Ends a half-drawn line.
  ~StepConsole();
  StepConsole(const StepConsole&) = delete;
  StepConsole& operator=(const StepConsole&) = delete;

  void step(const StepMetrics& metrics);

  /// A line of its own between steps ("step 100: validation loss 3.21"), without its line end.
  void note(std::string_view text);
  /// Why the run has failed: a note, and where it is quiet a line on standard error.
  void failure(std::string_view text);

  /// Writes the last step if it was not shown, and ends the line. Also called by the destructor.
  void finish();

 private:
  void build_line(const StepMetrics& metrics);
  void show(bool ends_line);
  std::optional<double> seconds_left(int64_t step) const;

  ConsoleOptions options_;
  fmt::memory_buffer line_;
  std::optional<int64_t> first_step_;
  std::chrono::steady_clock::time_point first_time_;
  std::chrono::steady_clock::time_point step_time_;
  std::optional<std::chrono::steady_clock::time_point> drawn_;
  bool pending_ = false;    ///< line_ holds a step that was not shown
  bool line_open_ = false;  ///< the terminal's cursor stands behind a drawn line
};

}  // namespace penstock::report
