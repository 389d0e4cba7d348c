#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduction.cuh"

/// Sums over rows, a few columns a block: gradients of biases and of norms' weights. No atomics, no scratch
/// memory: the order of a sum depends on the number of rows alone.
namespace penstock::cuda {

constexpr int column_threads = 512;
constexpr int column_packs = 2;  ///< packs side by side: 32 bytes, what memory moves at least
constexpr int column_rows = column_threads / column_packs;

/// Row r is head r % heads of token r / heads; it starts at dy + (r / heads) token_stride + (r % heads) columns,
/// in x alike, and its statistics lie at (r / heads) statistics_stride + r % heads.
template <class T>
struct ColumnSums {
  const T* dy;
  const T* x;           ///< absent: only dbias
  const float* mean;    ///< absent for the RMS norm
  const float* rstd;
  float* dweight;       ///< (columns) += Σ dy (x − mean) rstd
  float* dbias;         ///< (columns) += Σ dy; absent for the RMS norm
  int64_t rows;
  int64_t columns;
  int64_t heads;
  int64_t token_stride;
  int64_t statistics_stride;
  bool whole;           ///< rows can be read in packs
};

template <class T, bool with_weight, bool with_bias>
__global__ void __launch_bounds__(column_threads) column_sums_kernel(ColumnSums<T> call) {
  constexpr int width = pack_width<T>;
  constexpr int warps = column_threads / warp_threads;
  constexpr int block_columns = column_packs * width;
  constexpr int kinds = (with_weight ? 1 : 0) + (with_bias ? 1 : 0);
  SHARED_ARRAY(float, sums, kinds * warps * block_columns);
  const int pack = static_cast<int>(threadIdx.x) % column_packs;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * column_packs + pack) * width;
  Floats<width> weight_sum{};
  Floats<width> bias_sum{};
  for (int64_t row = threadIdx.x / column_packs; row < call.rows; row += column_rows) {
    const int64_t token = row / call.heads;
    const int64_t head = row - token * call.heads;
    const int64_t offset = token * call.token_stride + head * call.columns;
    const Floats<width> dy = load<width>(call.dy + offset, first, call.columns, call.whole);
    if constexpr (with_weight) {
      const int64_t statistic = token * call.statistics_stride + head;
      const float rstd = call.rstd[statistic];
      const float mean = with_bias ? call.mean[statistic] : 0.0F;
      const Floats<width> x = load<width>(call.x + offset, first, call.columns, call.whole);
#pragma unroll
      for (int i = 0; i < width; ++i) weight_sum[i] = fmaf(dy[i], (x[i] - mean) * rstd, weight_sum[i]);
    }
    if constexpr (with_bias) {
#pragma unroll
      for (int i = 0; i < width; ++i) bias_sum[i] += dy[i];
    }
  }
  // Lanes of a warp with the same pack, then warps, both in one order.
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
#pragma unroll
  for (int i = 0; i < width; ++i) {
#pragma unroll
    for (int distance = warp_threads / 2; distance >= column_packs; distance /= 2) {
      if (with_weight) weight_sum[i] += __shfl_xor_sync(whole_warp, weight_sum[i], distance);
      if (with_bias) bias_sum[i] += __shfl_xor_sync(whole_warp, bias_sum[i], distance);
    }
    if (threadIdx.x % warp_threads < column_packs) {
      const int at = warp * block_columns + pack * width + i;
      if (with_weight) sums[at] = weight_sum[i];
      if (with_bias) sums[(kinds - 1) * warps * block_columns + at] = bias_sum[i];
    }
  }
  __syncthreads();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * block_columns + threadIdx.x;
  if (threadIdx.x >= block_columns || column >= call.columns) return;
  float weight_total = 0;
  float bias_total = 0;
  for (int w = 0; w < warps; ++w) {
    const int at = w * block_columns + static_cast<int>(threadIdx.x);
    if (with_weight) weight_total += sums[at];
    if (with_bias) bias_total += sums[(kinds - 1) * warps * block_columns + at];
  }
  if (with_weight) call.dweight[column] += weight_total;
  if (with_bias) call.dbias[column] += bias_total;
}

template <class T, bool with_weight, bool with_bias>
void column_sums(const char* name, StreamHandle stream, ColumnSums<T> call) {
  call.whole = aligned(call.dy, call.x) && call.columns % pack_width<T> == 0 &&
               call.token_stride % pack_width<T> == 0;
  launch(name, column_sums_kernel<T, with_weight, with_bias>,
         {.blocks_x = ceil_divide(call.columns, column_packs * pack_width<T>), .threads = column_threads},
         stream, call);
}

}  // namespace penstock::cuda
