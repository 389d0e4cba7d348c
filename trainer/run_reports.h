#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/job/job.h"
#include "trainer/report/event_writer.h"
#include "trainer/report/metrics_writer.h"
#include "trainer/report/prometheus_file.h"
#include "trainer/report/rank_log.h"
#include "trainer/report/status_file.h"
#include "trainer/report/step_console.h"
#include "trainer/report/tensorboard_writer.h"
#include "trainer/run_folder.h"

namespace penstock {

/// Everything that a run writes about itself, in one place: console, rank log, metrics.jsonl, events.jsonl,
/// TensorBoard, status.json. A report that cannot be written never stops the training.
class RunReports {
 public:
  /// `resumed_step`: the checkpoint's, where this attempt goes on from one. Ranks other than 0 only write
  /// their log.
  RunReports(const RunPaths& paths, const Job& job, int rank, uint64_t attempt,
             std::optional<int64_t> resumed_step);

  void step(const report::StepMetrics& metrics);
  /// A line for people: on the console and in the rank log.
  void note(std::string_view text);
  /// Why the run has failed: said even where the console is quiet.
  void failure(std::string_view text);
  void warning(std::string_view text);
  /// A line for programs.
  void event(std::string_view name, int64_t step, const nlohmann::json& details);
  /// A TensorBoard scalar beside the step's own.
  void scalar(std::string_view tag, double value, int64_t step);
  /// Limits of the bubble budget as a window that ended with `step` found them: TensorBoard and Prometheus.
  void limits(const std::vector<report::LimitGauge>& limits, int64_t step);
  /// The run was arranged otherwise.
  void rearranged();
  /// The run goes on from `step` steps completed: those after it come again.
  void rolled_back(int64_t step);
  /// Publishes status() to status.json after the caller changed it.
  void publish();
  report::Status& status() { return status_; }
  /// The console's last step line is shown and ended.
  void finish_console();

 private:
  // What rank 0 writes for all.
  struct Leader {
    Leader(const RunPaths& paths, const Job& job, int64_t attempt, std::optional<int64_t> resumed_step,
           const report::MessageSink& sink);
    report::StepConsole console;
    report::MetricsWriter metrics;
    report::EventWriter events;
    std::optional<report::TensorBoardWriter> tensorboard;
    std::optional<report::PrometheusFile> prometheus;
    report::StatusFile status;
  };
  report::RankLog log_;
  std::unique_ptr<Leader> leader_;
  report::Status status_;
};

}  // namespace penstock
