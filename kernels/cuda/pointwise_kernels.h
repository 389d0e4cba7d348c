#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"
#include "kernels/math/pointwise.h"

/// Launchers of pointwise.cu. T: float, bfloat16 or float16. Pointers are device memory; formulas in
/// kernels/math/pointwise.h. n: elements.
namespace penstock::cuda {

template <class T>
void gelu_forward(StreamHandle stream, const T* x, T* y, int64_t n);
/// dx may be dy.
template <class T>
void gelu_backward(StreamHandle stream, const T* dy, const T* x, T* dx, int64_t n);

/// gate_up (rows, 2 width), y (rows, width).
template <class T>
void swiglu_forward(StreamHandle stream, const T* gate_up, T* y, int64_t rows, int64_t width);
/// dgate_up may be gate_up.
template <class T>
void swiglu_backward(StreamHandle stream, const T* dy, const T* gate_up, T* dgate_up, int64_t rows,
                     int64_t width);

/// y may be a or b.
template <class T>
void add(StreamHandle stream, const T* a, const T* b, T* y, int64_t n);
template <class From, class To>
void convert(StreamHandle stream, const From* src, To* dst, int64_t n);

/// y (rows, columns) += bias (columns).
template <class T>
void add_bias(StreamHandle stream, const float* bias, T* y, int64_t rows, int64_t columns);
/// dbias (columns) += Σ over rows of dy (rows, columns), in a fixed order.
template <class T>
void backward_bias(StreamHandle stream, const T* dy, float* dbias, int64_t rows, int64_t columns);

template <class T>
struct Rope {
  T* qkv = nullptr;                    ///< (tokens, row), in place
  const int32_t* positions = nullptr;  ///< (tokens)
  const float* table = nullptr;        ///< (P, head_dim/2, 2)
  int64_t tokens = 0;
  int64_t row = 0;
  int64_t rotated_heads = 0;
  int64_t head_dim = 0;
  float sign = 1;  ///< of the sine: −1 rotates back
};
template <class T>
void rope(StreamHandle stream, const Rope<T>& call);

template <class T>
struct Dropout {
  const T* x = nullptr;
  T* y = nullptr;                    ///< may be x
  const int64_t* samples = nullptr;  ///< (batch)
  int64_t batch = 0;
  int64_t elements = 0;  ///< of one sample
  const math::StepScalars* scalars = nullptr;
  math::DropoutSite site;
};
template <class T>
void dropout(StreamHandle stream, const Dropout<T>& call);

}  // namespace penstock::cuda
