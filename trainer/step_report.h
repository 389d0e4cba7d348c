#pragma once

#include "trainer/job/job.h"
#include "trainer/participant.h"
#include "trainer/run_reports.h"

namespace penstock {

/// Turns each step's summary into metrics: console, metrics.jsonl, TensorBoard, status.json.
class StepReport : public Participant {
 public:
  /// `matmul_roof`: FLOP/s of large products, all ranks together. `first_step`: steps completed before this
  /// attempt.
  StepReport(const Job& job, double matmul_roof, int64_t first_step, RunReports& reports);
  void act(const StepSummary& result, const Decision& decision) override;

 private:
  const Job& job_;
  double matmul_roof_;
  double flops_per_token_;
  int64_t tokens_;
  RunReports& reports_;
};

}  // namespace penstock
