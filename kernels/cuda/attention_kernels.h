#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"
#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"
#include "kernels/math/attention.h"

/// Launchers of attention_forward.cu, attention_forward_tensor.cu and attention_backward.cu: the flash-style
/// attention that is always there. T: float, bfloat16 or float16. Pointers are device memory; formulas in
/// kernels/math/attention.h.
namespace penstock::cuda {

constexpr int64_t most_head_dim = 128;
/// Heads of a whole batch: the second extent of a grid.
constexpr int64_t most_launch_rows = 65535;

template <class T>
struct AttentionForward {
  const T* qkv = nullptr;           ///< (N, (H+2G) D)
  const int32_t* starts = nullptr;  ///< (N) or absent
  T* out = nullptr;                 ///< (N, H D)
  float* lse = nullptr;             ///< (B,H,T)
  math::AttentionShape shape;
};
template <class T>
void attention_forward(StreamHandle stream, const AttentionForward<T>& call);

/// The same on tensor cores, for heads of multiples of 8 channels and T bfloat16 or float16: probabilities
/// are rounded to T before they meet the values, sums are fp32.
template <class T>
void attention_forward_tensor(StreamHandle stream, const AttentionForward<T>& call);

template <class T>
struct AttentionBackward {
  const T* dout = nullptr;          ///< (N, H D)
  const T* qkv = nullptr;           ///< (N, (H+2G) D)
  const int32_t* starts = nullptr;  ///< (N) or absent
  const T* out = nullptr;           ///< (N, H D)
  const float* lse = nullptr;       ///< (B,H,T)
  float* delta = nullptr;           ///< (B,H,T), scratch
  T* dqkv = nullptr;                ///< (N, (H+2G) D)
  math::AttentionShape shape;
};
/// No atomics: key and value gradients of a tile of keys, and query gradients of a tile of queries, each have
/// one block that recomputes the scores it needs.
template <class T>
void attention_backward(StreamHandle stream, const AttentionBackward<T>& call);

}  // namespace penstock::cuda
