#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"

/// Launchers of norm.cu. T: float, bfloat16 or float16. Pointers are device memory; formulas in
/// kernels/math/norm.h.
namespace penstock::cuda {

/// N rows of C channels. The layer norm has bias and mean, the RMS norm neither (nullptr).
template <class T>
struct NormForward {
  const T* x = nullptr;           ///< (N,C)
  const T* addend = nullptr;      ///< (N,C) or absent: then x + addend is normalised as it is stored in `sum`
  T* sum = nullptr;               ///< (N,C), with addend only
  const float* weight = nullptr;  ///< (C)
  const float* bias = nullptr;    ///< (C)
  T* y = nullptr;                 ///< (N,C)
  float* mean = nullptr;          ///< (N)
  float* rstd = nullptr;          ///< (N)
  int64_t rows = 0;
  int64_t channels = 0;
  float epsilon = 0;
};
template <class T>
void layer_norm_forward(StreamHandle stream, const NormForward<T>& call);
template <class T>
void rms_norm_forward(StreamHandle stream, const NormForward<T>& call);

template <class T>
struct NormBackward {
  const T* dy = nullptr;  ///< (N,C)
  const T* x = nullptr;   ///< (N,C)
  const float* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const T* dresidual = nullptr;  ///< (N,C) or absent; may be dx
  T* dx = nullptr;               ///< (N,C)
  float* dweight = nullptr;      ///< (C), accumulated
  float* dbias = nullptr;        ///< (C), accumulated
  int64_t rows = 0;
  int64_t channels = 0;
};
template <class T>
void layer_norm_backward(StreamHandle stream, const NormBackward<T>& call);
template <class T>
void rms_norm_backward(StreamHandle stream, const NormBackward<T>& call);

/// N tokens of H query, G key and G value heads of D channels, W = (H + 2 G) D.
template <class T>
struct HeadNorm {
  const T* qkv = nullptr;  ///< (N,W)
  const float* weight_q = nullptr;
  const float* weight_k = nullptr;
  T* out = nullptr;             ///< forward: (N,W)
  float* rstd_out = nullptr;    ///< forward: (N, H+G)
  T* dqkv = nullptr;            ///< backward: (N,W), in place
  const float* rstd = nullptr;  ///< backward: (N, H+G)
  float* dweight_q = nullptr;   ///< backward: (D), accumulated
  float* dweight_k = nullptr;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float epsilon = 0;
};
template <class T>
void head_norm_forward(StreamHandle stream, const HeadNorm<T>& call);
template <class T>
void head_norm_backward(StreamHandle stream, const HeadNorm<T>& call);

}  // namespace penstock::cuda
