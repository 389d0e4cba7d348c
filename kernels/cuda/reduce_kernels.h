#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"
#include "kernels/math/step_scalars.h"

/// Launchers of reduce.cu. Pointers are device memory; what each computes is in kernels/math/reduce.h.
namespace penstock::cuda {

/// blocks (norm_blocks(n)) of x (n).
void squares(StreamHandle stream, const float* x, double* blocks, int64_t n);
/// *out = values (n) added in ascending order. T: float or double.
template <class T>
void sum(StreamHandle stream, const T* values, double* out, int64_t n);
void global_norm(StreamHandle stream, const double* sums, int64_t n, float clip_norm,
                 math::StepScalars* scalars);
/// *out += how many of x (n) are NaN or infinite. T: float, bfloat16 or float16.
template <class T>
void count_nonfinite(StreamHandle stream, const T* x, int64_t* out, int64_t n);

}  // namespace penstock::cuda
