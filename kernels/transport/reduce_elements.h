#pragma once

#include <cstdint>
#include <span>

#include "kernels/device/dtype.h"
#include "kernels/transport/communicator.h"

namespace penstock::transport {

/// fp32, fp64, bf16, fp16, i32, i64.
bool reducible(DType dtype);

/// For each i in [0, count): inputs[0][from + i] ∘ inputs[1][from + i] ∘ …, from the left, written to [to +
/// i] of every output. An output may be an input where from = to. bf16 and fp16 are combined in fp32 and
/// rounded once.
void reduce_elements(DType dtype, Reduction reduction, std::span<const void* const> inputs, int64_t from,
                     std::span<void* const> outputs, int64_t to, int64_t count);

}  // namespace penstock::transport
