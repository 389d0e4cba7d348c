#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"
#include "kernels/device/dtype.h"

namespace penstock::cuda {

enum class Combine : uint8_t { sum, maximum, minimum };

/// The tensors of several ranks, of one type.
struct CombinePointers {
  static constexpr int most = 64;
  const void* inputs[most] = {};
  void* outputs[most] = {};
  int input_count = 0;
  int output_count = 0;
};

/// outputs[·][to + i] = inputs[0][from + i] ∘ inputs[1][from + i] ∘ …, from the left, for i in [0, count). An
/// output may be an input where from = to. fp32, fp64, i32, i64 in their own type, bf16 and fp16 in
/// fp32, rounded once.
void combine(StreamHandle stream, DType dtype, const CombinePointers& pointers, Combine how, int64_t from,
             int64_t to, int64_t count);

}  // namespace penstock::cuda
