#include "trainer/step_report.h"

#include <cmath>

#include "model/flops.h"
#include "trainer/loss_scaler.h"
#include "trainer/process_memory.h"

namespace penstock {

StepReport::StepReport(const Job& job, double matmul_roof, int64_t first_step, RunReports& reports)
    : job_(job),
      matmul_roof_(matmul_roof),
      flops_per_token_(model::training_flops_per_token(job.model)),
      tokens_(first_step * job.batch.global * job.model.sequence_length),
      reports_(reports) {}

StepReport::~StepReport() {
  publish();
}

void StepReport::publish() {
  if (!pending_) return;
  pending_ = false;
  reports_.step(metrics_);
  metrics_.ranks.clear();
}

void StepReport::rolled_back(int64_t step) {
  tokens_ = step * job_.batch.global * job_.model.sequence_length;
}

void StepReport::act(const StepSummary& result, const Decision& decision) {
  tokens_ += result.tokens;
  publish();
  report::StepMetrics& metrics = metrics_;
  metrics.step = result.step;
  metrics.tokens = tokens_;
  metrics.loss = result.loss;
  metrics.grad_norm = result.gradient_norm;
  metrics.learning_rate = result.learning_rate;
  if (scales_loss(job_)) metrics.loss_scale = result.loss_scale;
  metrics.step_ms = result.seconds * 1e3;
  metrics.tokens_per_second = static_cast<double>(result.tokens) / result.seconds;
  metrics.matmul_share = *metrics.tokens_per_second * flops_per_token_ / matmul_roof_;
  metrics.memory_peak_bytes = static_cast<double>(process_memory().peak);
  pending_ = true;

  report::Status& status = reports_.status();
  status.state = report::Status::State::running;
  status.step = result.step;
  status.loss = std::isfinite(result.loss) ? std::optional<double>(result.loss) : std::nullopt;
  status.seconds_left = static_cast<double>(job_.run.steps - result.step) * result.seconds;
  if (!decision.stop) reports_.publish();
}

}  // namespace penstock
