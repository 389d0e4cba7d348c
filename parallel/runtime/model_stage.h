#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/rank_model.h"
#include "parallel/runtime/executed_stage.h"

namespace penstock::runtime {

/// A stage of the model, executed.
class ModelStage final : public ExecutedStage {
 public:
  /// `index` among the rank's stages. `marks_units`: the last weight gradients of a step record unit_done().
  ModelStage(model::RankModel& rank, size_t index, bool marks_units);

  /// The side bands of the micro-batches of the calls that follow. They stay valid until the work is done.
  void serve(std::span<const model::SideBand> micro_batches, model::Pass pass);

  void forward(Stream& stream, const StageCall& call) override;
  void backward_input(Stream& stream, const StageCall& call) override;
  void backward_weight(Stream& stream, const StageCall& call) override;

  /// Seconds of recomputation inside I of micro-batch 0 of the last step, once that was finished.
  double recompute_seconds() const;
  /// The unit's gradients of the step are complete.
  const Event& unit_done(int unit) const { return *unit_done_[static_cast<size_t>(unit - begin_)]; }

 private:
  model::Stage& stage_;
  int begin_;
  std::vector<std::unique_ptr<Event>> unit_done_;
  std::span<const model::SideBand> micro_batches_;
  std::vector<double> recompute_stamps_;
  model::Pass pass_ = model::Pass::training;
};

}  // namespace penstock::runtime
