#pragma once

#include <cstdint>

#include "kernels/cuda/stream_handle.h"

/// Launchers of embedding.cu. T: float, bfloat16 or float16. N tokens, C channels.
namespace penstock::cuda {

template <class T>
struct EmbeddingForward {
  const int32_t* tokens = nullptr;     ///< (N)
  const int32_t* positions = nullptr;  ///< (N), with position_table only
  const T* token_table = nullptr;      ///< (V,C)
  const T* position_table = nullptr;   ///< (T,C) or absent
  T* y = nullptr;                      ///< (N,C)
  int64_t rows = 0;                    ///< N
  int64_t channels = 0;
};
template <class T>
void embedding_forward(StreamHandle stream, const EmbeddingForward<T>& call);

/// table (·,C) [index (N)] += dy (N,C), the rows of dy that share an index in ascending order.
template <class T>
void embedding_backward(StreamHandle stream, const T* dy, const int32_t* index, float* table, int64_t rows,
                        int64_t channels);

}  // namespace penstock::cuda
