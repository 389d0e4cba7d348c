#pragma once

#include <cstddef>

#include "kernels/math/attention.h"
#include "tests/kernels/math/operation.h"

namespace penstock::testing {

/// One attention against the reference. `documents` per sequence of equal length, cut off at its end; 0: no
/// starts. Tensors lie at multiples of `aligned_to` elements.
void check_attention_forward(const Implementations<math::Attention>& attentions,
                             const math::AttentionShape& shape, int documents, size_t aligned_to = 1);
void check_attention_backward(const Implementations<math::Attention>& attentions,
                              const math::AttentionShape& shape, int documents, size_t aligned_to = 1);

}  // namespace penstock::testing
