#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "model/parameter_store.h"
#include "model/planned_memory.h"

namespace penstock::model {

/// What a step is told by its host.
struct StepInputs {
  uint64_t step = 0;  ///< optimizer steps completed before this one
  double learning_rate = 0;
  int64_t target_tokens = 1;  ///< of the whole step, over all replicas
  double loss_scale = 1;      ///< of the gradients on their way; a power of two
};

/// The end of a step on one rank: tied gradients added, global norm, clipping, AdamW. Calls only enqueue; the
/// host never learns the norm before the update is queued.
///
/// With several ranks the parts are called one by one: after the exchange of the tied gradients add_tied();
/// squares() fills this rank's entries of sums(), the others arrive from their owners; then norm(), update().
/// Where the optimizer is sharded, squares() ends with the block sums of what the rank owns: all members' are
/// added, each is given by one member and 0 elsewhere, and add_blocks() makes the sums of them.
class OptimizerStep {
 public:
  OptimizerStep(PlannedMemory& memory, math::Math& math, const RankConfig& config,
                ParameterStore& parameters);

  /// Of the selected step.
  const math::StepScalars* scalars() const { return scalars_.as<math::StepScalars>() + selected_; }
  /// With two versions of the weights: the step, 0 or 1, that calls mean from now on. Each has its scalars;
  /// its gradients are the set of that number (ParameterStore::select_gradients()).
  void select(size_t step) { selected_ = step; }

  /// Writes the step's scalars to the device and begins its gradients (ParameterStore::begin_gradients()).
  void begin(Stream& stream, const StepInputs& inputs);

  /// The gradient of the tied weight = the head's accumulator + the embedding's (contract C1 c), once a step.
  /// Where they are on two ranks, the other's lies in received_tied_gradient().
  void add_tied(Stream& stream);
  /// fp32, flat, of what the rank owns of it; absent unless that is something and the tied weight's other
  /// copy is on another rank.
  Tensor received_tied_gradient() const;
  /// The part of the tied accumulator that this rank sends to the other, likewise.
  Tensor sent_tied_gradient() const;

  /// Sums of squares of this rank's gradients, each at its parameter's place in model order. A tied weight
  /// counts once, at the embedding's rank; of several copies of the weights the first counts.
  void squares(Stream& stream);
  /// fp64 (blocks of the rank's parameters): sums of squares; absent unless the optimizer is sharded.
  Tensor block_sums() const { return sharded_ ? blocks_ : Tensor(); }
  void add_blocks(Stream& stream);
  /// fp64 (parameters of the model); 0 where this rank does not own the parameter.
  Tensor sums() const { return sums_; }
  void norm(Stream& stream);
  /// What the host made of scalars(), between norm() and update(); host memory that the device reads.
  void overrule(Stream& stream, const math::StepScalars* host);
  /// Of what the rank owns.
  void update(Stream& stream);

  /// The whole of it, for a rank that has the model to itself.
  void finish(Stream& stream);

 private:
  const Parameter& tied() const;
  /// Where in block_sums() each parameter's begin; how many there are.
  int64_t place_blocks(const RankConfig& config);
  void add_up(Stream& stream, const Parameter& parameter, const Tensor& blocks);
  struct Upload {
    math::StepScalars* scalars = nullptr;  ///< in upload_memory_
    std::unique_ptr<Event> done;
    bool used = false;
  };

  math::Math& math_;
  OptimizerSection section_;
  ParameterStore& parameters_;
  bool sharded_;
  size_t selected_ = 0;
  Tensor scalars_;                    // u8
  Tensor blocks_;                     // fp64: of one parameter, or of all of them where sharded
  std::vector<int64_t> first_block_;  // by parameter, where sharded
  Tensor sums_;                       // fp64
  Tensor received_tied_;
  // The host may be a step ahead of the device: two copies, each written again once it was read.
  std::array<Upload, 2> uploads_;
  std::unique_ptr<HostMemory> upload_memory_;
};

}  // namespace penstock::model
