#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "model/rank_model.h"
#include "parallel/runtime/action_graphs.h"
#include "parallel/runtime/executed_stage.h"
#include "parallel/runtime/gradient_windows.h"

namespace penstock::runtime {

/// A stage of the model, executed.
class ModelStage final : public ExecutedStage {
 public:
  /// `index` among the rank's stages. `marks_units`: the ends of windows record when each unit's gradients
  /// are complete. `gathers`: parameters are gathered beside the first forward of a step.
  ModelStage(model::RankModel& rank, size_t index, const GradientWindows& windows, bool marks_units,
             bool gathers);

  /// From now on units run as graphs where they can. `stage`: its number in the model; `losses`: fp64
  /// (loss_terms), device memory for the losses of the micro-batch at hand, which are copied to their place
  /// afterwards.
  void use_graphs(WorkGraphs& device, int stage, Tensor losses);
  /// Null without use_graphs().
  ActionGraphs* graphs() const { return graphs_.get(); }

  /// The side bands of the micro-batches of the calls that follow. They stay valid until the work is done.
  /// `step`: of two that are under way, whose micro-batch m is number m + RankConfig::micro_batches in
  /// step 1.
  void serve(std::span<const model::SideBand> micro_batches, model::Pass pass, size_t step = 0);

  /// On the gathers' stream, behind a unit's: the next forward waits for it, unit by unit. All units, before
  /// that forward is enqueued.
  void gathered(Stream& stream, int unit);

  void await_parameters(Stream& stream) override;
  void forward(Stream& stream, const StageCall& call) override;
  void backward_input(Stream& stream, const StageCall& call) override;
  void backward_weight(Stream& stream, const StageCall& call) override;

  /// What the unit accumulates in its I, or all, is complete: of the window that ended last among the calls
  /// so far. I is marked only where there are several windows.
  const Event& input_half_done(int unit) const { return *input_done_[static_cast<size_t>(unit - begin_)]; }
  /// Seconds of recomputation inside the first I of the last step (of two, step 0 or 1), once that was
  /// finished.
  double recompute_seconds(size_t step = 0) const;
  const Event& unit_done(int unit) const { return *unit_done_[static_cast<size_t>(unit - begin_)]; }

 private:
  size_t step_of(int micro_batch) const;
  /// Of gradients, that the micro-batch accumulates in.
  size_t set_of(int micro_batch) const;
  void mark(Stream& stream, int unit, model::Phase phase);
  /// `work` calls the stage, which writes to the losses of call.micro_batch.
  template <class Work>
  void as_graph(Stream& stream, schedule::Op op, const StageCall& call, bool losses, const Work& work);

  model::RankModel& rank_;
  model::ParameterStore& parameters_;
  model::Stage& stage_;
  GradientWindows windows_;
  int begin_;
  std::vector<std::unique_ptr<Event>> input_done_;
  std::vector<std::unique_ptr<Event>> unit_done_;
  std::vector<std::unique_ptr<Event>> unit_gathered_;
  bool awaits_ = false;  ///< the next forward, its units' parameters
  /// By step.
  std::array<std::span<const model::SideBand>, 2> micro_batches_;
  std::array<std::vector<double>, 2> recompute_stamps_;
  std::array<bool, 2> timed_{};  ///< the step's recomputation
  model::Pass pass_ = model::Pass::training;
  std::unique_ptr<ActionGraphs> graphs_;
  Tensor losses_;
};

}  // namespace penstock::runtime
