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

/// Row r is head r % heads of token r / heads; it starts at dy + (r / heads) token_stride + (r % heads)
/// columns, in x alike, and its statistics lie at (r / heads) statistics_stride + r % heads.
template <class T>
struct ColumnSums {
  const T* dy;
  const T* x;         ///< absent: only dbias
  const float* mean;  ///< absent for the RMS norm
  const float* rstd;
  float* dweight;  ///< (columns) += Σ dy (x − mean) rstd
  float* dbias;    ///< (columns) += Σ dy; absent for the RMS norm
  int64_t rows;
  int64_t columns;
  int64_t heads;
  int64_t token_stride;
  int64_t statistics_stride;
  bool whole;  ///< rows can be read in packs
};

template <class T, bool with_weight, bool with_bias>
__global__ void __launch_bounds__(column_threads) column_sums_kernel(ColumnSums<T> call) {
  constexpr int width = pack_width<T>;
  constexpr int block_columns = column_packs * width;
  constexpr int outputs = (with_weight && with_bias ? 2 : 1) * block_columns;
  constexpr int bias_output = with_weight ? block_columns : 0;
  constexpr int parts = column_threads / outputs;  ///< threads that share the sum of one output
  constexpr int part_rows = column_rows / parts;
  SHARED_ARRAY(float, of_threads, column_rows* outputs);
  SHARED_ARRAY(float, of_parts, column_threads);
  const auto thread = static_cast<int>(threadIdx.x);
  const int pack = thread % column_packs;
  const int lane = thread / column_packs;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * column_packs + pack) * width;
  Floats<width> weight_sum{};
  Floats<width> bias_sum{};
  for (int64_t row = lane; row < call.rows; row += column_rows) {
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
#pragma unroll
  for (int i = 0; i < width; i += 4) {
    const int at = lane * outputs + pack * width + i;
    if constexpr (with_weight) {
      store4(of_threads + at,
             make_float4(weight_sum[i], weight_sum[i + 1], weight_sum[i + 2], weight_sum[i + 3]));
    }
    if constexpr (with_bias) {
      store4(of_threads + (at + bias_output),
             make_float4(bias_sum[i], bias_sum[i + 1], bias_sum[i + 2], bias_sum[i + 3]));
    }
  }
  __syncthreads();
  const int output = thread % outputs;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < part_rows; ++i)
    sum += of_threads[(thread / outputs * part_rows + i) * outputs + output];
  of_parts[thread] = sum;
  __syncthreads();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * block_columns + output % block_columns;
  if (thread >= outputs || column >= call.columns) return;
  float total = 0;
  for (int part = 0; part < parts; ++part) total += of_parts[part * outputs + output];
  float* const to = with_bias && output >= bias_output ? call.dbias : call.dweight;
  to[column] += total;
}

template <class T, bool with_weight, bool with_bias>
void column_sums(const char* name, StreamHandle stream, ColumnSums<T> call) {
  call.whole =
      aligned(call.dy, call.x) && call.columns % pack_width<T> == 0 && call.token_stride % pack_width<T> == 0;
  launch(name, column_sums_kernel<T, with_weight, with_bias>,
         {.blocks_x = ceil_divide(call.columns, column_packs * pack_width<T>), .threads = column_threads},
         stream, call);
}

}  // namespace penstock::cuda
