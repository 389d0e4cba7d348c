#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/append_file.h"
#include "trainer/report/step_metrics.h"

namespace penstock::report {

/// A limit of the bubble budget, in its key's unit, and what the last window had.
struct LimitGauge {
  std::string name;  ///< the key: "bubble_ratio", "drain_ms"
  double limit = 0;
  std::optional<double> found;  ///< nothing: the window has no such figure
  bool alarming = false;
};

/// metrics.prom: the latest step for a Prometheus that reads text files (node_exporter's textfile collector),
/// in text format 0.0.4, renamed into place. Every metric is called "penstock_" and the name that it has in
/// metrics.jsonl, and has the label `run`.
class PrometheusFile {
 public:
  using Clock = std::chrono::steady_clock;
  PrometheusFile(
      std::string path, std::string run, MessageSink sink,
      std::function<Clock::time_point()> now = [] { return Clock::now(); });
  /// Writes what was not written yet.
  ~PrometheusFile();
  PrometheusFile(const PrometheusFile&) = delete;
  PrometheusFile& operator=(const PrometheusFile&) = delete;

  /// A step; written five seconds after the one before at the earliest.
  void step(const StepMetrics& metrics);
  /// The budget's limits; written at once where one began or ceased to alarm.
  void limits(std::vector<LimitGauge> limits);
  /// The run was arranged otherwise once more.
  void rearranged() { ++rearrangements_; }

 private:
  void write();
  std::string text() const;

  std::string path_;
  std::string run_;
  MessageSink sink_;
  std::function<Clock::time_point()> now_;
  std::optional<Clock::time_point> written_;
  StepMetrics latest_;
  std::vector<LimitGauge> limits_;
  std::map<std::string, int64_t> alarms_;  ///< by limit, of this attempt
  int64_t rearrangements_ = 0;
  bool stale_ = false;
  bool failing_ = false;
};

}  // namespace penstock::report
