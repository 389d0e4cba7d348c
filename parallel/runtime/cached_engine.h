#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "kernels/transport/world.h"
#include "model/cached_model.h"
#include "parallel/runtime/pipeline_plan.h"

namespace penstock::runtime {

/// One rank of a pipeline that goes on with texts, token by token, from the keys and values that it kept of
/// earlier tokens. Every replica does the same. All ranks make the same calls in the same order; each waits.
/// Stages compute one after another: a token has to pass them all before the next is known.
///
/// Slots hold a text each. A text's logits do not depend on other slots, nor on how it came into its own: on
/// the processor to the bit, on any layout whose wire has the compute dtype.
class CachedEngine {
 public:
  /// Collective over the world. `device`, `math` and `world` outlive the engine; `plan` is forward_only. All
  /// memory is reserved when this returns; DeviceError with the table if it is not there.
  CachedEngine(Device& device, math::Math& math, transport::World& world, PipelinePlan plan,
               const model::CacheConfig& cache);
  CachedEngine(const CachedEngine&) = delete;
  CachedEngine& operator=(const CachedEngine&) = delete;

  const PipelinePlan& plan() const { return plan_; }
  model::CachedModel& rank() { return model_; }
  Stream& stream() { return *stream_; }
  int64_t slots() const { return model_.cache().slots; }
  int64_t positions() const { return model_.cache().positions; }
  /// Whether this rank knows logits.
  bool holds_head() const { return model_.has_head(); }

  /// The slot's text is `tokens` (1…positions()) from now on; logits(slot) are those after the last.
  void read(int64_t slot, std::span<const int32_t> tokens);
  /// A token more for each slot, −1: none; its text has room. logits() are those after it.
  void advance(std::span<const int32_t> tokens);
  /// Tokens of the slot's text.
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }
  /// (V) after the slot's last token, in host memory, until it goes on; of a slot that was not advanced by
  /// the last call nothing is known. UsageError where the head is not.
  std::span<const float> logits(int64_t slot) const;
  /// tokens = those of the rank with the head, on every rank; at most slots() of them.
  void tell(std::span<int32_t> tokens);

 private:
  int owner(int stage) const { return plan_.owner(stage); }
  bool mine(int stage) const { return owner(stage) == place_.pipeline; }
  /// All stages of a pass whose rows begin at `row` of the host's.
  void run(size_t pass, size_t row);
  void hand_on(size_t pass, int stage);
  void put(size_t row, int32_t token, int64_t position, int64_t slot);
  void finish(int64_t first, int64_t count);

  transport::World& world_;
  PipelinePlan plan_;
  Place place_;
  Communicators communicators_;
  model::CachedModel model_;
  std::vector<int64_t> pass_rows_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<HostMemory> host_memory_;
  std::span<int32_t> tokens_, positions_, slots_;  ///< of the passes under way
  std::span<int32_t> told_;
  std::span<float> logits_;  ///< (S,V), where the head is
  std::vector<int64_t> lengths_;
  std::optional<transport::AbortOnUnwind> abort_;  ///< once it is whole
};

}  // namespace penstock::runtime
