#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/device/dtype.h"
#include "kernels/device/tensor.h"
#include "model/model_section.h"
#include "model/recompute_section.h"
#include "model/unit_id.h"

namespace penstock::model {

/// The actions of a unit, in the order in which a micro-batch passes them.
enum class Phase : uint8_t { forward, recompute, backward_input, backward_weight };

/// Every tensor that a unit may keep or use for a micro-batch. N tokens, C hidden, H query and G key heads of
/// D channels, W = (H + 2G)·D, F inner width of the MLP (projected is 2F wide for SwiGLU).
enum class SlotTensorId : uint8_t {
  input,          ///< (N,C) the residual stream; written by the unit before
  norm_output,    ///< (N,C)
  mean,           ///< (N) fp32, LayerNorm only
  rstd,           ///< (N) fp32
  projected,      ///< attention (N,W) queries, keys, values; mlp (N,F) or (N,2F) before the activation
  heads,          ///< (N,W) with QK norm: projected after head norm and rotation
  head_rstd,      ///< (N,H+G) fp32
  attended,       ///< (N,H·D)
  log_sum_exp,    ///< (B,H,T) fp32
  activated,      ///< (N,F)
  d_output,       ///< (N,C) gradient of the unit's output; written by the unit after
  d_branch,       ///< (N,C) with dropout: gradient of the branch before it joined the residual stream
  d_attended,     ///< (N,H·D)
  d_activated,    ///< (N,F) SwiGLU
  d_projected,    ///< as projected
  d_norm_output,  ///< (N,C)
  losses          ///< (N) fp32, head
};
inline constexpr int slot_tensor_ids = static_cast<int>(SlotTensorId::losses) + 1;
std::string_view name_of(SlotTensorId id);

/// One entry of a unit's list: planner, validator and executor all read this.
struct SlotTensor {
  SlotTensorId id = SlotTensorId::input;
  Shape shape;
  DType dtype = DType::fp32;
  Phase born = Phase::forward;
  Phase dies = Phase::backward_input;  ///< last phase that reads it
};

/// Where a tensor lies, which follows from when it lives.
///   forward:   F → I. A forward slot is taken by F and free after I.
///   kept:      F → W. A kept slot is taken by F and free after W.
///   weight:    R or I → W, and every d_output. Taken when the gradient arrives, free after W.
///   transient: lives within one F, or within one R and I of a unit: workspace, shared by all units of a
///   rank.
enum class Pool : uint8_t { forward, kept, weight, transient };
inline constexpr int pool_count = 4;
std::string_view name_of(Pool pool);
Pool pool_of(const SlotTensor& tensor);

/// Sequences of T tokens in a micro-batch of B, N = B·T.
struct MicroBatchShape {
  int64_t sequences = 0;
  int64_t tokens = 0;
  int64_t rows() const { return sequences * tokens; }
};

/// What a unit needs for a micro-batch under a recompute mode (not `automatic`: UsageError). A tensor that F
/// makes and R makes again stands twice: F → F (scratch) and R → its death.
std::vector<SlotTensor> slot_tensors(const ModelSection& model, UnitId unit, DType compute,
                                     MicroBatchShape shape, RecomputeMode mode);

/// Which slot of each pool a micro-batch uses.
struct SlotIds {
  int forward = 0;
  int kept = 0;
  int weight = 0;
};

/// A unit's tensors of one micro-batch in one phase: a table look-up by id; absent where the unit has none.
class SlotView {
 public:
  Tensor operator[](SlotTensorId id) const { return tensors_[static_cast<size_t>(id)]; }
  void set(SlotTensorId id, Tensor tensor) { tensors_[static_cast<size_t>(id)] = tensor; }

 private:
  std::array<Tensor, slot_tensor_ids> tensors_{};
};

/// Offsets of a unit's tensors inside each pool's slot.
class SlotLayout {
 public:
  explicit SlotLayout(std::vector<SlotTensor> tensors);
  const std::vector<SlotTensor>& tensors() const { return tensors_; }
  /// Bytes of one slot of `pool`; transient: what the unit's greediest phase needs.
  size_t bytes(Pool pool) const { return bytes_[static_cast<size_t>(pool)]; }
  /// The tensors of `phase`, given where each pool's slot begins.
  SlotView view(Phase phase, const std::array<void*, pool_count>& slots) const;

 private:
  std::vector<SlotTensor> tensors_;
  std::vector<size_t> offsets_;
  std::array<size_t, pool_count> bytes_{};
};

}  // namespace penstock::model
