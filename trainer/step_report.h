#pragma once

#include "trainer/job/job.h"
#include "trainer/participant.h"
#include "trainer/run_reports.h"

namespace penstock {

/// Turns each step's summary into metrics: status.json at once; console, metrics.jsonl and TensorBoard once
/// the step is accounted for, which is while the device works on the next one.
class StepReport : public Participant {
 public:
  /// `matmul_roof`: FLOP/s of large products, all ranks together. `first_step`: steps completed before this
  /// attempt.
  StepReport(const Job& job, double matmul_roof, int64_t first_step, RunReports& reports);
  /// A line that was not published is published without its account.
  ~StepReport() override;
  StepReport(const StepReport&) = delete;
  StepReport& operator=(const StepReport&) = delete;

  void rolled_back(int64_t step) override;
  void act(const StepSummary& result, const Decision& decision) override;

  /// The last step's numbers, to which its account is added before publish(). Null: all are published.
  report::StepMetrics* pending() { return pending_ ? &metrics_ : nullptr; }
  void publish();

 private:
  const Job& job_;
  double matmul_roof_;
  double flops_per_token_;
  int64_t tokens_;
  RunReports& reports_;
  report::StepMetrics metrics_;
  bool pending_ = false;
};

}  // namespace penstock
