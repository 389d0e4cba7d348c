#pragma once

#include <array>
#include <memory>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "model/cache_config.h"
#include "model/head_unit.h"
#include "model/parameter_store.h"
#include "model/planned_memory.h"
#include "model/unit.h"

namespace penstock::model {

/// A rank's memory where text is generated: weights, keys and values of earlier tokens, and the tensors of
/// one pass at a time. `config`: forward_only, with the rank's stages; its micro_batch counts for nothing.
MemoryPlan plan_cached_memory(math::Math& math, const RankConfig& config, const CacheConfig& cache);

/// One rank's part of a model that generates: a pass computes some tokens, whose keys and values stay for
/// those that follow. All memory is reserved, planned to the byte, and touched when the constructor returns.
/// Calls only enqueue, and allocate nothing. R rows of a pass, C hidden, S slots, V vocabulary.
///
/// A pass: take_rows(), then for each stage of the rank, in the order of the model, its input at incoming()
/// (the first has none), forward(), and where another rank goes on outgoing(); behind the last stage
/// take_row() of those whose logits are wanted, and logits().
class CachedModel {
 public:
  /// `device` and `math` outlive it. No stream may have work on it when it is destroyed.
  CachedModel(Device& device, math::Math& math, RankConfig config, const CacheConfig& cache);

  const RankConfig& config() const { return config_; }
  const CacheConfig& cache() const { return cache_; }
  PlannedMemory& memory() { return memory_; }
  ParameterStore& parameters() { return parameters_; }
  math::Math& math() { return math_; }
  /// Constants, such as the rotary table, and a cache of 0: whatever the parameters come from. Waits.
  void clear_state(Stream& stream);

  /// (pass_rows()): the rows of each pass.
  int64_t rows(size_t pass) const { return passes_[pass].rows; }
  size_t passes() const { return passes_.size(); }
  /// The pass of one token of each slot.
  size_t token_pass() const { return passes_.size() - 1; }

  /// Tokens, positions and slots (−1: none) of the rows, i32 (R) each, from host memory that stays until the
  /// work is done.
  void take_rows(Stream& stream, size_t pass, const int32_t* tokens, const int32_t* positions,
                 const int32_t* slots);
  /// The rank's stage number `index`.
  void forward(Stream& stream, size_t pass, size_t index);
  /// (R,C) in the wire's dtype: where the output of the stage before is received; arrived() follows it.
  Tensor incoming(size_t pass) const;
  void arrived(Stream& stream, size_t pass);
  /// (R,C) in the wire's dtype: the last forward()'s result, for the next stage.
  Tensor outgoing(Stream& stream, size_t pass);

  bool has_head() const { return head_ != nullptr; }
  /// Row `row` of the last stage's result becomes that of a slot; of all at once where `pass` is
  /// token_pass().
  void take_row(Stream& stream, int64_t row, int64_t slot);
  void take_all(Stream& stream);
  /// logits (count, V) fp32 of slots 0 … count − 1.
  Tensor logits(Stream& stream, int64_t count);
  /// i32 (S), device memory: the tokens that ranks tell each other.
  Tensor told_tokens() const { return told_; }

 private:
  struct Pass {
    int64_t rows = 0;
    CallSites sites;
    std::unique_ptr<UnitContext> context;
    std::vector<std::unique_ptr<Unit>> units;  ///< of the rank, in the order of its stages
    std::vector<SlotLayout> layouts;
  };
  void make_units(Pass& pass);
  Tensor hidden(size_t pass, int place) const {
    return hidden_[static_cast<size_t>(place)].rows(0, passes_[pass].rows);
  }
  SlotView view(const SlotLayout& layout, const Tensor& input) const;

  RankConfig config_;
  CacheConfig cache_;
  math::Math& math_;
  std::vector<Pass> passes_;
  PlannedMemory memory_;
  ParameterStore parameters_;
  std::vector<LayerCache> caches_;  ///< by layer; absent: another rank's
  Group tensor_;
  Group context_;
  Tensor rope_table_;
  Tensor tokens_, positions_, slots_;  ///< i32 (most rows)
  std::array<Tensor, 2> hidden_;       ///< (most rows, C): units read one and write the other
  int current_ = 0;                    ///< which has the last unit's result
  Tensor wire_;                        ///< (most rows, C); absent where the wire has the compute dtype
  Tensor head_input_;                  ///< (S,C)
  Tensor logits_;                      ///< fp32 (S,V)
  Tensor told_;
  char* transients_ = nullptr;
  SlotLayout head_layout_;
  std::unique_ptr<HeadUnit> head_;
};

}  // namespace penstock::model
