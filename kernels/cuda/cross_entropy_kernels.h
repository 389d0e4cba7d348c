#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"
#include "kernels/math/step_scalars.h"

/// Launchers of cross_entropy.cu: softmax with cross-entropy of a block of tokens' logits. Pointers are
/// device memory; T: float, bfloat16 or float16.
namespace penstock::cuda {

/// `tokens` rows of `rows` logits each, of which the first `vocab` are real.
struct CrossEntropy {
  const float* logits = nullptr;     ///< (tokens, rows)
  const int32_t* targets = nullptr;  ///< (tokens); −1: no loss, no gradient
  float* losses = nullptr;           ///< (tokens) = log Σ exp(logits) − logits[target]
  int64_t tokens = 0;
  int64_t rows = 0;
  int64_t vocab = 0;
};
void cross_entropy_loss(StreamHandle stream, const CrossEntropy& call);

/// The losses, and gradient (tokens, rows; may be the logits' memory) = (softmax − onehot) ·
/// scalars->gradient_scale, 0 for padding.
template <class T>
void cross_entropy_loss_and_gradient(StreamHandle stream, const CrossEntropy& call, T* gradient,
                                     const math::StepScalars* scalars);

}  // namespace penstock::cuda
