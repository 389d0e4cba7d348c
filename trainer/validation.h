#pragma once

#include "trainer/evaluation.h"
#include "trainer/participant.h"
#include "trainer/run_reports.h"

namespace penstock {

/// Evaluates every evaluation.every_steps steps, after the last one, and when asked.
class Validation : public Participant {
 public:
  Validation(const Job& job, runtime::LocalEngine& engine, Corpus& corpus, RunReports& reports);
  void wish(const StepSummary& result, Decision& wishes) override;
  void act(const StepSummary& result, const Decision& decision) override;

 private:
  const Job& job_;
  runtime::LocalEngine& engine_;
  Corpus& corpus_;
  RunReports& reports_;
};

}  // namespace penstock
