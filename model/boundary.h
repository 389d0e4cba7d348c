#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/device/stream.h"
#include "kernels/device/tensor.h"
#include "kernels/math/math.h"
#include "model/rank_config.h"

namespace penstock::model {

/// What crosses from one stage to the next, and, as a gradient, back.
struct BoundaryTensor {
  std::string_view name;
  Shape shape;
  DType dtype = DType::fp32;
};

/// One entry: "hidden" (N,C) in the wire's dtype. Every boundary between two stages is rounded to it, also
/// where both are on one rank: bits depend on where the model is cut, not on who holds the pieces.
std::vector<BoundaryTensor> boundary(const RankConfig& config);

/// target = what arrived in a buffer of the wire's dtype, of the same shape. Only enqueues.
void take_from_wire(Stream& stream, math::Math& math, const Tensor& arrived, const Tensor& target);

/// What goes with a micro-batch beside its activations. B sequences of T tokens, N = B·T.
struct SideBand {
  Tensor tokens;     ///< i32 (N), first stage only
  Tensor targets;    ///< i32 (N), −1 for none; last stage only; never travels
  Tensor positions;  ///< i32 (N), 0…sequence_length−1 within its document
  Tensor starts;     ///< i32 (N), first token of its sequence that each query may see; with a document mask
  Tensor samples;    ///< i64 (B), global sample ids: the keys of dropout
};

/// A member of SideBand with its shape.
struct SideBandTensor {
  std::string_view name;
  Tensor SideBand::*member = nullptr;
  Shape shape;
  DType dtype = DType::i32;
};

/// What a stage needs of the side band.
std::vector<SideBandTensor> side_band(const RankConfig& config, const StageConfig& stage);

/// Bytes of a slot of the stage's side band, each tensor aligned.
size_t side_band_bytes(const RankConfig& config, const StageConfig& stage);

}  // namespace penstock::model
