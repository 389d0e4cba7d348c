#pragma once

#include <cstdint>
#include <string>

#include "kernels/transport/clock_alignment.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/run_folder.h"

namespace penstock {

/// Writes `trace/step-00000012.json` for each of the job's `trace.steps`, and for steps that somebody wishes
/// to see (Decision::trace): when every instruction of every rank ran, all on rank 0's clock. Collected when
/// the step is over; no step that is not traced pays for it.
class StepTrace : public Participant {
 public:
  /// `clocks` were measured, and outlive it.
  StepTrace(const RankContext& context, const RunPaths& paths, transport::ClockAlignment& clocks);
  void act(const StepSummary& result, const Decision& decision) override;

 private:
  /// Whether the job lists it.
  bool listed(int64_t step) const;
  void trace(int64_t step);
  /// Our part of the file.
  std::string events(int64_t step) const;
  void write(int64_t step, const std::string& text) const;

  RankContext context_;
  RunPaths paths_;
  transport::ClockAlignment& clocks_;
  bool wished_ = false;  ///< the next step
};

}  // namespace penstock
