#include "trainer/report/step_console.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "trainer/report/progress_bar.h"
#include "trainer/report/rate_text.h"

namespace penstock::report {
namespace {

constexpr auto kRedrawPeriod = std::chrono::milliseconds(100);

int digits_of(int64_t number) {
  int digits = 1;
  for (; number >= 10; number /= 10) ++digits;
  return digits;
}

}  // namespace

StepConsole::StepConsole(ConsoleOptions options) : options_(std::move(options)) {}

StepConsole::~StepConsole() {
  finish();
}

std::optional<double> StepConsole::seconds_left(int64_t step) const {
  // The first step of an attempt is slower than the others; evaluations and saves count as they come.
  if (!first_step_ || step <= *first_step_) return std::nullopt;
  const double passed = std::chrono::duration<double>(step_time_ - first_time_).count();
  return passed / static_cast<double>(step - *first_step_) * static_cast<double>(options_.total_steps - step);
}

void StepConsole::build_line(const StepMetrics& metrics) {
  line_.clear();
  const auto out = std::back_inserter(line_);
  fmt::format_to(out, "step {:>{}}/{}", metrics.step, digits_of(options_.total_steps), options_.total_steps);
  if (metrics.loss) fmt::format_to(out, " | loss {:.4f}", *metrics.loss);
  if (metrics.grad_norm) fmt::format_to(out, " | grad {:.3f}", *metrics.grad_norm);
  if (metrics.learning_rate) fmt::format_to(out, " | lr {:.2e}", *metrics.learning_rate);
  if (metrics.tokens_per_second) {
    fmt::format_to(out, " | ");
    append_rate(*metrics.tokens_per_second, line_);
    fmt::format_to(std::back_inserter(line_), " tok/s");
  }
  if (metrics.matmul_share)
    fmt::format_to(std::back_inserter(line_), " | matmul {:.0f} %", 100 * *metrics.matmul_share);
  if (metrics.bubble_ratio && metrics.ranks.size() > 1) {
    fmt::format_to(std::back_inserter(line_), " | bubble {:.1f} %", 100 * *metrics.bubble_ratio);
    if (metrics.slowest_stage && metrics.stage_imbalance) {
      fmt::format_to(std::back_inserter(line_), ", stage {:.0f} slowest (+{:.1f} %)", *metrics.slowest_stage,
                     100 * *metrics.stage_imbalance);
    }
  }
  if (metrics.memory_peak_bytes) {
    fmt::format_to(std::back_inserter(line_), " | ");
    append_memory(*metrics.memory_peak_bytes, line_);
  }
  if (const std::optional<double> left = seconds_left(metrics.step);
      left && metrics.step < options_.total_steps) {
    fmt::format_to(std::back_inserter(line_), " | {} left", format_duration(*left));
  }
}

void StepConsole::step(const StepMetrics& metrics) {
  if (options_.quiet) return;
  step_time_ = options_.now();
  const bool first = !first_step_;
  build_line(metrics);
  pending_ = true;
  if (first) {
    first_step_ = metrics.step;
    first_time_ = step_time_;
  }
  const bool last = metrics.step >= options_.total_steps;
  if (options_.redraw) {
    if (last || !drawn_ || step_time_ - *drawn_ >= kRedrawPeriod) {
      drawn_ = step_time_;
      show(last);
    }
  } else if (first || last || metrics.step % options_.every_steps == 0) {
    show(true);
  }
}

void StepConsole::show(bool ends_line) {
  size_t bytes = line_.size();
  if (options_.redraw) {
    // A wrapped line could not be redrawn. The line is ASCII: a byte is a column.
    bytes = std::min(bytes, static_cast<size_t>(std::max(options_.columns - 1, 0)));
    std::fputs("\r", options_.stream);
  }
  std::fwrite(line_.data(), 1, bytes, options_.stream);
  if (options_.redraw) std::fputs("\x1b[K", options_.stream);
  if (ends_line) std::fputc('\n', options_.stream);
  std::fflush(options_.stream);
  line_open_ = !ends_line;
  pending_ = false;
}

void StepConsole::note(std::string_view text) {
  if (options_.quiet) return;
  if (line_open_) std::fputs("\r\x1b[K", options_.stream);
  std::fwrite(text.data(), 1, text.size(), options_.stream);
  std::fputc('\n', options_.stream);
  if (line_open_) {
    show(false);
  } else {
    std::fflush(options_.stream);
  }
}

void StepConsole::failure(std::string_view text) {
  if (!options_.quiet) return note(text);
  fmt::print(stderr, "penstock: {}\n", text);
}

void StepConsole::finish() {
  if (pending_) {
    show(true);
  } else if (line_open_) {
    std::fputc('\n', options_.stream);
    std::fflush(options_.stream);
    line_open_ = false;
  }
}

}  // namespace penstock::report
