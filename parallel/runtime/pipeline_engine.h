#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "kernels/transport/world.h"
#include "model/nonfinite.h"
#include "model/rank_model.h"
#include "parallel/runtime/executor.h"
#include "parallel/runtime/gradient_reducer.h"
#include "parallel/runtime/model_stage.h"
#include "parallel/runtime/parameter_gatherer.h"
#include "parallel/runtime/pipeline_plan.h"
#include "parallel/runtime/rolling_lists.h"
#include "parallel/runtime/step_ends.h"

namespace penstock::runtime {

/// One rank of a pipeline: runs its part of every step. All ranks make the same calls in the same order, each
/// with the micro-batches of its replica.
///
/// Micro-batches are side bands in host memory, which must stay as they are until the step was finished.
/// Tokens are read where holds_first() and targets where holds_last(); elsewhere they may be absent.
/// Positions, starts and samples are needed everywhere, and do not travel.
///
/// If a call throws anything but a UsageError about its own arguments, the world is stopped, so that all
/// ranks throw, and nothing that was enqueued reads the micro-batches any more. The same if an exception
/// destroys the engine.
class PipelineEngine final : private StepOperations {
 public:
  /// Collective over the world. `device`, `math` and `world` outlive the engine. All memory is reserved when
  /// this returns; DeviceError with the table if it is not there.
  PipelineEngine(Device& device, math::Math& math, transport::World& world, PipelinePlan plan);
  /// Beside a running engine on the same ranks, to take its place, over communicators_beside() of that one.
  /// Not collective: where one rank cannot have it, the others can drop theirs. The device's arenas are free
  /// (Device::set_arenas_aside).
  PipelineEngine(Device& device, math::Math& math, transport::World& world, PipelinePlan plan,
                 Communicators communicators);
  ~PipelineEngine() override;
  PipelineEngine(const PipelineEngine&) = delete;
  PipelineEngine& operator=(const PipelineEngine&) = delete;

  /// What an engine of this plan needs, as far as possible ours. Collective.
  Communicators communicators_beside(const PipelinePlan& plan) const;

  const PipelinePlan& plan() const { return plan_; }
  const Place& place() const { return place_; }
  model::RankModel& rank() { return rank_; }
  Stream& stream() { return executor_.stream(Lane::compute); }
  bool owns(int stage) const { return plan_.owner(stage) == place_.pipeline; }
  /// Whether the rank reads tokens, and targets.
  bool holds_first() const { return plan_.holds_first(place_.pipeline); }
  bool holds_last() const { return plan_.holds_last(place_.pipeline); }

  /// What a step's update depends on besides a finite norm.
  struct UpdateRule {
    /// A loss above it (mean over the step's target tokens), or none, leaves everything as it is.
    double loss_limit = std::numeric_limits<double>::infinity();
    /// It waits for update_held(), or never comes.
    bool held = false;
  };
  /// Enqueues a whole step and returns; as many side bands as the plan has micro-batches. finish_step() comes
  /// before any other call.
  ///
  /// Where the plan overlaps, the next step may be started before this one was finished, and only then they
  /// overlap: else the pipeline is drained. What is computed does not depend on it. Step s reads the weights
  /// that the updates of steps 0 … s − 2 made (step 0 the first ones), and its own update comes behind that
  /// of step s − 1. Between two steps the rank's state is that of a plan that does not overlap, and the
  /// earlier version of the weights. There is no rule then but the finite norm.
  void start_step(const model::StepInputs& inputs, std::span<const model::SideBand> micro_batches,
                  const UpdateRule& rule);
  void start_step(const model::StepInputs& inputs, std::span<const model::SideBand> micro_batches) {
    start_step(inputs, micro_batches, UpdateRule());
  }
  /// Updates by the gradients of the last step, which was held and is finished, if it is to be applied.
  /// Waits.
  void update_held();
  /// Waits for the step that was started. The same on every rank: losses are added over all replicas, each in
  /// ascending order of its micro-batches, replicas in order.
  model::StepResult finish_step();
  /// Lets what was started end, updates too. The results of steps that were not finished wait for
  /// finish_step().
  void drain();
  /// Behind World::abort(): until nothing that was enqueued runs any more, whatever became of it. For a host
  /// that fails while steps are under way: what they read must outlive them.
  void run_out() noexcept { executor_.run_out(); }
  /// Steps that were started and not finished.
  int started_steps() const { return under_way_.unfinished; }
  /// The next step's update waits for `event` as it is recorded now: until then weights and moments stay as
  /// they are. It outlives that step.
  void hold_update_for(const Event& event) { held_for_ = &event; }
  /// Seconds that the update stood still for that, once its step was finished; where steps overlap, once the
  /// step behind that one was. Until then nothing.
  std::optional<double> held_seconds() const;
  /// Of the last step, once it was finished, the same on every rank: summed over the target tokens of each
  /// micro-batch, those of replica 0 first.
  std::span<const double> losses() const { return told_[finished_].losses; }
  /// What the step did, when; complete once it was finished, overwritten `kept_steps` steps later.
  static constexpr size_t kept_steps = 4;
  std::span<const Stamp> stamps(uint64_t step) const { return stamps_[step % kept_steps]; }
  /// Where the optimizer step stands among them; behind it, only what is gathered.
  size_t update_place() const { return training_.steps().size() - training_.gathers() - 1; }
  /// What the rank did last and does now: for other threads, and beyond the engine's end.
  std::shared_ptr<const FlightRecord> flights() const { return executor_.flights(); }
  /// Seconds on the device's clock, of the last step, once it was finished: when the optimizer offered its
  /// squares and losses to all ranks, and when they had agreed.
  double offered_seconds() const { return told_[finished_].offered; }
  double agreed_seconds() const { return told_[finished_].agreed; }
  /// Of one of the rank's own stages: recomputation inside its first I of the last step.
  double recompute_seconds(int stage) const {
    return stages_[static_cast<size_t>(stage)]->recompute_seconds(finished_);
  }

  /// With a plan that has graphs: why something is not launched as one after all. Once; mostly empty.
  std::string take_graph_note();
  /// Of this rank: how many (stage, action, slot) are launched as graphs by now.
  int64_t captured_graphs() const;

  /// Loss summed over the target tokens of all replicas' micro-batches, forward only; any number of them, the
  /// same on the ranks of a pipeline. Known on every rank. Waits.
  double evaluate(std::span<const model::SideBand> micro_batches);
  /// logits (V) fp32 after token `row` (0…N−1) of one micro-batch, forward only, known on every rank of the
  /// pipeline. Waits. UsageError unless the plan was asked for them.
  std::span<const float> logits(const model::SideBand& micro_batch, int64_t row);

  /// With a sharded optimizer: what others have updated since it was gathered last is gathered, if anything
  /// was: of both versions of the weights, where there are two. A step does so by itself, beside its first
  /// forwards, and so does whatever runs forwards here. Collective over the members; enqueued on stream().
  void gather_parameters();

  /// What our units are at the end of a step is taken over from an engine of the same model, topology and
  /// ranks that is between two steps, and stays as it is (take_over.cpp). Collective over the world, and
  /// waits. Bytes that came from other ranks.
  int64_t take_over(PipelineEngine& from);

  /// Names the first unit with a NaN or infinity in a step over these micro-batches, which of them it was,
  /// and of which replica. The step's gradients are lost. Waits. The same on every rank.
  struct Finding {
    model::Nonfinite where;
    size_t micro_batch = 0;
    int replica = 0;
    int stage = 0;
    int rank = 0;  ///< of the world, which computes that stage
    bool backward = false;
  };
  std::optional<Finding> find_nonfinite(std::span<const model::SideBand> micro_batches);

 private:
  void reduce_gradients(Stream& stream, const schedule::Action& action, bool last) override;
  void sum_tied(Stream& stream) override;
  void agree(Stream& stream) override;
  void optimizer_step(Stream& stream) override;
  void gather_parameters(Stream& stream, const schedule::Action& action) override;

  /// Nothing is updated if the loss is above the rule's limit.
  void judge_loss(Stream& at);
  double mean_loss() const;
  void update(Stream& at);

  ExecutorParts executor_parts();
  void reserve_host_memory();
  void use_graphs();
  /// Runs `work`. If it throws, stops the world and lets what is enqueued run out.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const std::exception& error) {
      world_.abort(error.what());
      executor_.run_out();
      throw;
    }
  }
  void serve(std::span<const model::SideBand> micro_batches, model::Pass pass);
  const StepList& evaluation_list(int micro_batches);
  double evaluate_unguarded(std::span<const model::SideBand> micro_batches);
  void forward_only(std::span<const model::SideBand> micro_batches);

  /// Among the rank's stages in the model's order.
  size_t index_of(int stage) const;

  model::StepResult result_of(size_t step) const;
  void copy_results(Stream& stream, size_t step);

  // pipeline_overlap.cpp
  void use_two_versions();
  void start_over(const model::StepInputs& inputs, std::span<const model::SideBand> micro_batches);
  model::StepResult finish_over();
  /// What is enqueued next is this instruction's.
  void select(const schedule::Instruction& instruction);
  void drain_unguarded();
  StepsUnderWay steps_under_way();

  // pipeline_search.cpp
  /// Stage `from` hands source() to target() of stage `to`, on whichever ranks they are.
  template <class Source, class Target>
  void hand_over(int from, int to, Source source, Target target);
  std::optional<model::Nonfinite> search_forward(const model::SideBand& micro_batch);
  std::optional<model::Nonfinite> search_backward();
  std::optional<Finding> agree(const std::optional<model::Nonfinite>& found, size_t micro_batch,
                               bool forward);

  Device& device_;
  transport::World& world_;
  PipelinePlan plan_;
  Place place_;
  Communicators communicators_;
  model::RankModel rank_;
  std::vector<std::unique_ptr<ModelStage>> stages_;  ///< by stage of the model; null: another rank's
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<ParameterGatherer> gatherer_;  ///< of a sharded optimizer
  Tensor agreement_;                             ///< fp64: sums of squares, then losses by replica
  Tensor agreed_losses_;                         ///< its end
  Tensor logits_;                                ///< fp32 (V)
  Tensor arrival_;                               ///< a buffer of what arrives; absent where nothing does
  std::unique_ptr<HostMemory> host_memory_;      ///< of the next three, and of what is told
  double* host_sum_ = nullptr;
  std::span<double> host_losses_;  ///< of an evaluation
  std::span<float> host_logits_;
  /// What a step tells its host; where steps overlap, that of either parity.
  struct Told {
    math::StepScalars* scalars = nullptr;
    std::span<double> losses;
    double offered = 0;
    double agreed = 0;
  };
  std::array<Told, 2> told_;
  size_t finished_ = 0;  ///< of those, the step that was finished last
  /// Where steps overlap.
  struct UnderWay {
    uint64_t updates = 0;            ///< that were enqueued: of steps 0 … updates − 1
    std::array<uint64_t, 2> step{};  ///< by parity
    uint64_t next = 0;               ///< to be finished
    uint64_t last = 0;               ///< that was started
    int unfinished = 0;
    bool open = false;  ///< not drained
  };
  UnderWay under_way_;
  std::unique_ptr<RollingLists> rolling_;
  std::unique_ptr<StepEnds> ends_;
  StepList training_;
  std::map<int, StepList> evaluations_;
  std::array<std::vector<Stamp>, kept_steps> stamps_;
  std::vector<Stamp> evaluation_stamps_;
  UpdateRule rule_;
  int64_t target_tokens_ = 1;
  const Event* held_for_ = nullptr;
  std::array<double, 2> held_{};
  uint64_t held_update_ = 0;  ///< where steps overlap: which one stood still
  Executor executor_;
  std::optional<transport::AbortOnUnwind> abort_;  ///< once it is whole
};

}  // namespace penstock::runtime
