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

RunReports::RunReports(const RunFolder& folder, const Job& job, uint64_t attempt,
                       std::optional<int64_t> resumed_step)
    : log_(folder.logs().string(), 0),
      console_(console_options(job)),
      metrics_(folder.metrics().string(), static_cast<int64_t>(attempt),
               [this](const auto& text) { warning(text); }),
      events_(folder.events().string(), static_cast<int64_t>(attempt),
              [this](const auto& text) { warning(text); }),
      status_file_(folder.status().string(), [this](const auto& text) { warning(text); }) {
  if (job.log.tensorboard) {
    tensorboard_ = std::make_unique<report::TensorBoardWriter>(folder.tensorboard().string(), resumed_step,
                                                               [this](const auto& text) { warning(text); });
  }
  status_.attempt = static_cast<int64_t>(attempt);
  status_.total_steps = job.run.steps;
  status_.last_checkpoint = resumed_step;
  status_.step = resumed_step.value_or(0);
}

void RunReports::step(const report::StepMetrics& metrics) {
  metrics_.write(metrics);
  if (tensorboard_) tensorboard_->write(metrics);
  console_.step(metrics);
}

void RunReports::note(std::string_view text) {
  console_.note(text);
  log_.info(text);
}

void RunReports::warning(std::string_view text) {
  console_.note(std::string("warning: ").append(text));
  log_.warning(text);
}

void RunReports::event(std::string_view name, int64_t step, const nlohmann::json& details) {
  events_.write(name, step, details);
}

void RunReports::scalar(std::string_view tag, double value, int64_t step) {
  if (tensorboard_) tensorboard_->write(tag, value, step);
}

void RunReports::publish() {
  status_file_.update(status_);
}

}  // namespace penstock
