#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"
#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"
#include "kernels/math/cached_attention.h"

/// Launchers of cached_attention.cu. T: float, bfloat16 or float16. Pointers are device memory; the formula
/// stands in kernels/math/cached_attention.h.
namespace penstock::cuda {

template <class T>
struct CachedAttentionCall {
  const T* qkv = nullptr;              ///< (R, (H+2G) D)
  const int32_t* slots = nullptr;      ///< (R)
  const int32_t* positions = nullptr;  ///< (R)
  T* keys = nullptr;                   ///< (S,G,P,D)
  T* values = nullptr;                 ///< (S,G,P,D)
  T* out = nullptr;                    ///< (R, H D)
  math::CachedAttentionShape shape;
};

/// Stores the rows' keys and values, then attends. Heads of at most most_head_dim channels.
template <class T>
void cached_attention(StreamHandle stream, const CachedAttentionCall<T>& call);

}  // namespace penstock::cuda
