#pragma once

#include <functional>
#include <string>

#include "parallel/runtime/local_engine.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/job/job.h"
#include "trainer/participant.h"
#include "trainer/run_folder.h"
#include "trainer/run_reports.h"
#include "trainer/spike_detector.h"

namespace penstock {

/// Saves every checkpoint.every_steps steps, after the last one, and when asked; then deletes the ones that
/// [checkpoint] does not keep. A save that fails is reported and, with on_save_error = "stop", ends the run;
/// the earlier checkpoints stay.
class Checkpointing : public Participant {
 public:
  Checkpointing(const Job& job, const RunFolder& folder, uint64_t attempt, std::string data_fingerprint,
                runtime::LocalEngine& engine, SpikeDetector& spikes, RunReports& reports);

  void wish(const StepSummary& result, Decision& wishes) override;
  void act(const StepSummary& result, const Decision& decision) override;

  /// How long the last save took; 0 before the first.
  double save_seconds() const { return save_seconds_; }
  /// The text of the last save's failure; empty after a success.
  const std::string& failure() const { return failure_; }

 private:
  void save(int64_t step);

  const Job& job_;
  std::string folder_;
  std::string data_fingerprint_;
  runtime::LocalEngine& engine_;
  SpikeDetector& spikes_;
  RunReports& reports_;
  checkpoint::CheckpointWriter writer_;
  double save_seconds_ = 0;
  std::string failure_;
};

}  // namespace penstock
