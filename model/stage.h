#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/math/math.h"
#include "model/boundary.h"
#include "model/head_unit.h"
#include "model/planned_memory.h"
#include "model/unit.h"

namespace penstock::model {

/// A contiguous run of units with the slots of its micro-batches in flight. Every call only enqueues, and
/// allocates nothing. N tokens of a micro-batch, C hidden.
///
/// A micro-batch passes forward, backward_input, backward_weight with the same SlotIds; its forward slot is
/// free after backward_input, the other two after backward_weight. backward_input rebuilds, unit by unit,
/// what the recompute modes did not keep.
class Stage {
 public:
  /// What the stages of a rank share: its boundary buffers, null where no stage has any, and where the wire
  /// has a dtype of its own the memory of what is to be converted.
  struct Boundaries {
    char* outputs = nullptr;
    char* d_inputs = nullptr;
    char* staging = nullptr;
  };
  /// `index` among the rank's stages; `losses`: fp64 (micro-batches, loss_terms).
  Stage(const UnitContext& context, PlannedMemory& memory, size_t index, Tensor losses,
        const Boundaries& boundaries);

  const StageConfig& config() const { return config_; }
  bool has_embedding() const { return config_.begin == 0; }
  bool has_head() const { return head_ != nullptr; }

  /// Boundary tensors (N,C); `output` and `d_input` are in the wire's dtype, the others in the compute dtype,
  /// and whoever receives for them converts. `input`: where the output of the stage before is received;
  /// `output`: what is sent on; `d_output`: where its gradient is received; `d_input`: the gradient sent
  /// back. UsageError at the model's ends, where there is none.
  Tensor input(const SlotIds& slots) const;
  Tensor output(int buffer) const;
  Tensor d_output(const SlotIds& slots) const;
  Tensor d_input(int buffer) const;

  /// Copies `inputs` (host memory, or a neighbour's side band; valid until the work is done; side_band() says
  /// which are needed) into the slot and runs the units. `micro_batch`: the row of the losses.
  void forward(Stream& stream, const SlotIds& slots, int64_t micro_batch, const SideBand& inputs, Pass pass,
               int output_buffer = 0);
  /// The two halves of forward: what comes from the host, and the units.
  void take_side_band(Stream& stream, const SlotIds& slots, const SideBand& inputs);
  void forward_units(Stream& stream, const SlotIds& slots, int64_t micro_batch, Pass pass, int output_buffer);
  void backward_input(Stream& stream, const SlotIds& slots, int64_t micro_batch, int d_input_buffer = 0);
  void backward_weight(Stream& stream, const SlotIds& slots);

  /// Losses go to `losses`, fp64 (loss_terms), whatever the micro-batch; absent: to its row again.
  void redirect_losses(Tensor losses) { redirected_losses_ = losses; }

  /// Units that recompute in their backward pass.
  int recomputing_units() const;
  /// Start and end of each recomputation of the next backward_input(), two stamps for each of
  /// recomputing_units(), written until that work is done.
  void time_recompute(std::span<double> stamps) { recompute_stamps_ = stamps; }

  /// The slot's side band on the device, to be sent on with the output.
  SideBand side_band_of(const SlotIds& slots) const;
  /// logits (count, vocab) fp32 of rows [first, first + count) of the micro-batch in the slot; UsageError
  /// without a head.
  void logits(Stream& stream, const SlotIds& slots, int64_t first, int64_t count, Tensor logits);

  /// Called after a unit's calls of a phase are enqueued, with the tensor that they hand to the next unit
  /// (absent at the model's ends, and where a phase hands nothing on). For the diagnosis of a bad step and
  /// for measurements; empty: nobody.
  using Observer = std::function<void(int unit, Phase phase, Tensor handed)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  /// Called before a unit's forward is enqueued; empty: nobody.
  void ahead_of_forward(std::function<void(int unit)> call) { ahead_of_forward_ = std::move(call); }

 private:
  struct Member {
    std::unique_ptr<Unit> unit;
    SlotLayout layout;
    std::array<char*, pool_count> memory{};
    std::array<int, pool_count> slots{};
  };
  bool recomputes(int member) const {
    return !config_.recompute.empty() &&
           config_.recompute[static_cast<size_t>(member)] != RecomputeMode::none;
  }
  int units() const { return static_cast<int>(members_.size()); }
  SlotView view(int member, Phase phase, const SlotIds& slots) const;
  MicroBatch micro_batch_of(const SlotIds& slots, int64_t micro_batch, Pass pass) const;
  void tell(int member, Phase phase, Tensor handed) const;
  Tensor boundary_buffer(const char* what, char* buffers, int count, int buffer) const;
  /// Where a unit writes what leaves through `buffer`; and its conversion, where that is another place.
  Tensor leaving(const Tensor& buffer) const { return staging_ ? staging_ : buffer; }
  void leave(Stream& stream, const Tensor& buffer) const;

  const RankConfig& rank_;
  math::Math& math_;
  StageConfig config_;
  std::vector<Member> members_;
  std::vector<SideBandTensor> side_band_;
  char* side_band_memory_ = nullptr;
  size_t side_band_slot_ = 0;
  BoundaryTensor hidden_;
  size_t boundary_bytes_ = 0;
  char* output_ = nullptr;   // output_buffers of them, each aligned
  char* d_input_ = nullptr;  // d_input_buffers
  Tensor staging_;           // (N,C) in the compute dtype; absent where the wire has that too
  Tensor losses_;
  Tensor redirected_losses_;
  HeadUnit* head_ = nullptr;
  Observer observer_;
  std::function<void(int)> ahead_of_forward_;
  std::span<double> recompute_stamps_;
};

}  // namespace penstock::model
