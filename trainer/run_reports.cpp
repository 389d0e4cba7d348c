#include "trainer/run_reports.h"

#include "trainer/report/terminal.h"

namespace penstock {
namespace {

report::ConsoleOptions console_options(const Job& job) {
  report::ConsoleOptions options;
  options.total_steps = job.run.steps;
  options.every_steps = job.log.every_steps;
  options.quiet = job.log.console == ConsoleMode::quiet;
  const report::Terminal terminal = report::terminal_of(stdout);
  options.redraw = job.log.console == ConsoleMode::automatic && terminal.redraw;
  options.columns = terminal.columns;
  return options;
}

}  // namespace

RunReports::Leader::Leader(const RunPaths& paths, const Job& job, int64_t attempt,
                           std::optional<int64_t> resumed_step, const report::MessageSink& sink)
    : console(console_options(job)),
      metrics(paths.metrics().string(), attempt, sink),
      events(paths.events().string(), attempt, sink),
      status(paths.status().string(), sink) {
  if (job.log.tensorboard) tensorboard.emplace(paths.tensorboard().string(), resumed_step, sink);
  if (job.log.prometheus) prometheus.emplace(paths.prometheus().string(), job.run.name, sink);
}

RunReports::RunReports(const RunPaths& paths, const Job& job, int rank, uint64_t attempt,
                       std::optional<int64_t> resumed_step)
    : log_(paths.logs().string(), rank) {
  status_.attempt = static_cast<int64_t>(attempt);
  status_.total_steps = job.run.steps;
  status_.last_checkpoint = resumed_step;
  status_.step = resumed_step.value_or(0);
  if (rank != 0) return;
  leader_ = std::make_unique<Leader>(paths, job, static_cast<int64_t>(attempt), resumed_step,
                                     [this](const std::string& text) { warning(text); });
}

void RunReports::step(const report::StepMetrics& metrics) {
  if (!leader_) return;
  leader_->metrics.write(metrics);
  if (leader_->tensorboard) leader_->tensorboard->write(metrics);
  if (leader_->prometheus) leader_->prometheus->step(metrics);
  leader_->console.step(metrics);
}

void RunReports::note(std::string_view text) {
  if (leader_) leader_->console.note(text);
  log_.info(text);
}

void RunReports::failure(std::string_view text) {
  if (leader_) leader_->console.failure(text);
  log_.error(text);
}

void RunReports::warning(std::string_view text) {
  if (leader_) leader_->console.note(std::string("warning: ").append(text));
  log_.warning(text);
}

void RunReports::event(std::string_view name, int64_t step, const nlohmann::json& details) {
  if (leader_) leader_->events.write(name, step, details);
}

void RunReports::scalar(std::string_view tag, double value, int64_t step) {
  if (leader_ && leader_->tensorboard) leader_->tensorboard->write(tag, value, step);
}

void RunReports::limits(const std::vector<report::LimitGauge>& limits, int64_t step) {
  for (const report::LimitGauge& each : limits) {
    if (each.found) scalar("budget/" + each.name, *each.found, step);
    scalar("budget/" + each.name + "_limit", each.limit, step);
    scalar("budget/" + each.name + "_alarming", each.alarming ? 1 : 0, step);
  }
  if (leader_ && leader_->prometheus) leader_->prometheus->limits(limits);
}

void RunReports::rearranged() {
  if (leader_ && leader_->prometheus) leader_->prometheus->rearranged();
}

void RunReports::rolled_back(int64_t step) {
  if (leader_ && leader_->tensorboard) leader_->tensorboard->go_on_from(step);
  status_.step = step;
  publish();
}

void RunReports::publish() {
  if (leader_) leader_->status.update(status_);
}

void RunReports::finish_console() {
  if (leader_) leader_->console.finish();
}

}  // namespace penstock
