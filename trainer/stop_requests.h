#pragma once

#include <functional>

#include "trainer/participant.h"
#include "trainer/run_reports.h"
#include "trainer/stop_switch.h"

namespace penstock {

/// Brings what was asked from outside (signals, control files, the time limit) into the step loop's vote.
class StopRequests : public Participant {
 public:
  /// `stop`: null on a rank whose process has another rank that polls. `save_seconds`: how long the last save
  /// took, for the time limit's margin.
  StopRequests(StopSwitch* stop, RunReports& reports, std::function<double()> save_seconds);
  void wish(const StepSummary& result, Decision& wishes) override;

 private:
  StopSwitch* stop_;
  RunReports& reports_;
  std::function<double()> save_seconds_;
};

}  // namespace penstock
