#pragma once

#include <cstdint>

#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"

namespace penstock::cpu {

/// Softmax with cross-entropy of one row of logits (rows) of which the first `vocab` are real. Returns
/// log Σ exp(logits) − logits[target], 0 for target −1. Overwrites the logits.
///
/// With a gradient (rows; may be the logits' memory): gradient = (softmax − onehot) · scale, 0 for padding
/// and for target −1. The bits depend on the row alone: maxima and sums run in 16 lanes, counted from its
/// first element.
float cross_entropy_row(float* logits, int64_t rows, int64_t vocab, int32_t target);
float cross_entropy_row(float* logits, int64_t rows, int64_t vocab, int32_t target, float scale,
                        float* gradient);
float cross_entropy_row(float* logits, int64_t rows, int64_t vocab, int32_t target, float scale,
                        bfloat16* gradient);
float cross_entropy_row(float* logits, int64_t rows, int64_t vocab, int32_t target, float scale,
                        float16* gradient);

}  // namespace penstock::cpu
