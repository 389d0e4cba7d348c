#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trainer/participant.h"
#include "trainer/run_reports.h"
#include "trainer/stop_switch.h"

namespace penstock {

/// Brings what was asked from outside (signals, control files, the time limit) into the step loop's vote.
class StopRequests : public Participant {
 public:
  /// `stop`: null on a rank whose process has another rank that polls. `save_seconds`: how long the last save
  /// took, for the time limit's margin.
  /// `act`: takes what is asked of the bubble budget, with the steps completed.
  StopRequests(StopSwitch* stop, RunReports& reports, std::function<double()> save_seconds,
               std::function<void(const std::string& request, int64_t step)> act);
  void wish(const StepSummary& result, Decision& wishes) override;

 private:
  StopSwitch* stop_;
  RunReports& reports_;
  std::function<double()> save_seconds_;
  std::function<void(const std::string& request, int64_t step)> act_;
};

}  // namespace penstock
