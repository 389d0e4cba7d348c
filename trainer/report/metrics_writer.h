#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "trainer/report/append_file.h"
#include "trainer/report/step_metrics.h"

namespace penstock::report {

/// metrics.jsonl: one JSON object a step, `"schema": 1`, one write(2) each.
class MetricsWriter {
 public:
  /// `attempt`: how often this run was started, from 1; a step that was done again after a resume stands
  /// there twice, and the higher attempt counts.
  MetricsWriter(const std::string& path, int64_t attempt, MessageSink sink);

  /// Absent numbers are left out; NaN and Inf become null. Allocates nothing once a line has been written.
  void write(const StepMetrics& metrics);

 private:
  void write_ranks(const StepMetrics& metrics);

  AppendFile file_;
  int64_t attempt_;
  fmt::memory_buffer line_;
};

}  // namespace penstock::report
