#include "kernels/cuda/element.cuh"
#include "kernels/cuda/embedding_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduction.cuh"

namespace penstock::cuda {
namespace {

constexpr int threads = 256;

template <class T>
__global__ void __launch_bounds__(threads) embedding_forward_kernel(EmbeddingForward<T> call, bool whole) {
  constexpr int n = pack_width<T>;
  const int64_t packs = (call.channels + n - 1) / n;
  const int64_t number = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  const int64_t row = number / packs;
  if (row >= call.rows) return;
  const int64_t first = (number - row * packs) * n;
  const T* const token = call.token_table + call.tokens[row] * call.channels;
  Floats<n> values = load<n>(token, first, call.channels, whole);
  if (call.position_table != nullptr) {
    const T* const position = call.position_table + call.positions[row] * call.channels;
    const Floats<n> more = load<n>(position, first, call.channels, whole);
#pragma unroll
    for (int i = 0; i < n; ++i) values[i] += more[i];
  }
  store<n>(call.y + row * call.channels, first, call.channels, whole, values);
}

/// Places of `index` that hold one value, collected before their rows are added.
constexpr int list_size = 2 * threads;
constexpr int warps = threads / warp_threads;

/// A block a row of dy. The block of the first row that holds an index adds them all; the others have nothing
/// to do. So every sum has one owner and one order, without atomics and without sorting.
template <class T>
__global__ void __launch_bounds__(threads)
    embedding_backward_kernel(const T* dy, const int32_t* index, float* table, int64_t rows, int64_t channels,
                              bool whole) {
  constexpr int n = 4;
  SHARED_ARRAY(int32_t, list, list_size);
  SHARED_ARRAY(int, found_by_warp, warps);
  const int64_t own = blockIdx.x;
  const int32_t value = index[own];
  for (int64_t begin = 0; begin < own; begin += threads) {
    const int64_t at = begin + threadIdx.x;
    if (__syncthreads_or(at < own && index[at] == value ? 1 : 0) != 0) return;  // an earlier row owns it
  }
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  int listed = 0;
  for (int64_t begin = own; begin < rows; begin += threads) {
    const int64_t at = begin + threadIdx.x;
    const bool match = at < rows && index[at] == value;
    const unsigned votes = __ballot_sync(whole_warp, match ? 1 : 0);
    if (lane == 0) found_by_warp[warp] = __popc(votes);
    __syncthreads();
    int place = listed;
    for (int w = 0; w < warps; ++w) {
      const int found = found_by_warp[w];
      if (w < warp) place += found;
      listed += found;
    }
    if (match) list[place + __popc(votes & ((1U << lane) - 1U))] = static_cast<int32_t>(at);
    __syncthreads();
    if (listed > list_size - threads || begin + threads >= rows) {
      for (int64_t first = static_cast<int64_t>(threadIdx.x) * n; first < channels; first += threads * n) {
        Floats<n> sum = load<n>(table + value * channels, first, channels, whole);
#pragma unroll 4
        for (int i = 0; i < listed; ++i) {
          const Floats<n> more = load<n>(dy + list[i] * channels, first, channels, whole);
#pragma unroll
          for (int j = 0; j < n; ++j) sum[j] += more[j];
        }
        store<n>(table + value * channels, first, channels, whole, sum);
      }
      listed = 0;
      __syncthreads();
    }
  }
}

}  // namespace

template <class T>
void embedding_forward(StreamHandle stream, const EmbeddingForward<T>& call) {
  const bool whole =
      aligned(call.token_table, call.position_table, call.y) && call.channels % pack_width<T> == 0;
  launch("embedding_forward", embedding_forward_kernel<T>,
         {.blocks_x = ceil_divide(call.rows * ceil_divide(call.channels, pack_width<T>), threads),
          .threads = threads},
         stream, call, whole);
}

template <class T>
void embedding_backward(StreamHandle stream, const T* dy, const int32_t* index, float* table, int64_t rows,
                        int64_t channels) {
  launch("embedding_backward", embedding_backward_kernel<T>, {.blocks_x = rows, .threads = threads}, stream,
         dy, index, table, rows, channels, aligned(dy) && aligned(table) && channels % 4 == 0);
}

#define PENSTOCK_INSTANTIATE(T)                                              \
  template void embedding_forward(StreamHandle, const EmbeddingForward<T>&); \
  template void embedding_backward(StreamHandle, const T*, const int32_t*, float*, int64_t, int64_t);
PENSTOCK_INSTANTIATE(float)
PENSTOCK_INSTANTIATE(bfloat16)
PENSTOCK_INSTANTIATE(float16)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock::cuda
