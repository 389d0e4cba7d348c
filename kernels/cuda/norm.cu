#include <cmath>
#include <type_traits>

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_kernels.h"
#include "kernels/cuda/reduction.cuh"

namespace penstock::cuda {
namespace {

constexpr int block_threads = 256;
/// Packs of a row that a thread keeps in registers; the rest of a longer row is read again for every pass.
constexpr int kept_packs = 4;
/// Rows up to this many channels are a warp's work, longer ones a block's.
template <class T>
constexpr int64_t warp_channels = kept_packs* warp_threads* pack_width<T>;

/// Which row a thread works on: `threads` threads share one.
template <int threads>
__device__ int64_t row_of_thread() {
  if constexpr (threads == block_threads) return blockIdx.x;
  return static_cast<int64_t>(blockIdx.x) * (block_threads / threads) + threadIdx.x / threads;
}
template <int threads>
int64_t blocks_of_rows(int64_t rows) {
  return ceil_divide(rows, block_threads / threads);
}

/// A thread's share of a row of n values: packs number lane, lane + threads, …
template <class T, int threads>
class RowShare {
 public:
  static constexpr int width = pack_width<T>;

  __device__ RowShare(const T* row, int64_t n, bool whole) : row_(row), n_(n), whole_(whole) {
#pragma unroll
    for (int k = 0; k < kept_packs; ++k) kept_[k] = load_chunk<width>(row, first(k), n, whole);
  }

  /// body(first element, values), packs ascending.
  template <class Body>
  __device__ void each(const Body& body) const {
#pragma unroll
    for (int k = 0; k < kept_packs; ++k) {
      if (first(k) < n_) body(first(k), to_floats(kept_[k]));
    }
    for (int k = kept_packs; first(k) < n_; ++k) body(first(k), load<width>(row_, first(k), n_, whole_));
  }

  /// body(first element, values of a, values of b) of two rows of one length.
  template <class Body>
  __device__ static void each_pair(const RowShare& a, const RowShare& b, const Body& body) {
#pragma unroll
    for (int k = 0; k < kept_packs; ++k) {
      if (first(k) < a.n_) body(first(k), to_floats(a.kept_[k]), to_floats(b.kept_[k]));
    }
    for (int k = kept_packs; first(k) < a.n_; ++k) {
      body(first(k), load<width>(a.row_, first(k), a.n_, a.whole_),
           load<width>(b.row_, first(k), b.n_, b.whole_));
    }
  }

  __device__ static int64_t first(int k) {
    return (static_cast<int64_t>(k) * threads + threadIdx.x % threads) * width;
  }

 private:
  const T* row_;
  int64_t n_;
  bool whole_;
  Chunk<T, width> kept_[kept_packs];  // as stored: half the registers in bf16
};

/// Sum over the row's elements of term(value, index).
template <class T, int threads, class Term>
__device__ float row_sum(const RowShare<T, threads>& share, int64_t n, const Term& term) {
  float sum = 0;
  share.each([&](int64_t first, const Floats<pack_width<T>>& x) {
#pragma unroll
    for (int i = 0; i < pack_width<T>; ++i) {
      if (first + i < n) sum += term(x[i]);
    }
  });
  return reduce_sum<threads>(sum);
}

struct Statistics {
  float mean;
  float rstd;
};

/// y (n) = (x − mean) rstd weight + bias (`centred`), or x rstd weight.
template <class T, int threads, bool centred>
__device__ Statistics norm_row(const T* x, const float* weight, const float* bias, int64_t n, float epsilon,
                               T* y, bool whole) {
  constexpr int width = pack_width<T>;
  const RowShare<T, threads> share(x, n, whole);
  const auto count = static_cast<float>(n);
  const float mean = centred ? row_sum(share, n, [](float value) { return value; }) / count : 0.0F;
  const float squares = row_sum(share, n, [mean](float value) {
    const float deviation = value - mean;
    return deviation * deviation;
  });
  const float rstd = 1.0F / sqrtf(squares / count + epsilon);
  share.each([&](int64_t first, const Floats<width>& values) {
    const Floats<width> w = load<width>(weight, first, n, whole);
    Floats<width> result;
    if constexpr (centred) {
      const Floats<width> b = load<width>(bias, first, n, whole);
#pragma unroll
      for (int i = 0; i < width; ++i) result[i] = fmaf((values[i] - mean) * rstd, w[i], b[i]);
    } else {
#pragma unroll
      for (int i = 0; i < width; ++i) result[i] = values[i] * rstd * w[i];
    }
    store<width>(y, first, n, whole, result);
  });
  return {mean, rstd};
}

/// sum (n) = a + b, by the threads that read it afterwards.
template <class T, int threads>
__device__ void add_row(const T* a, const T* b, int64_t n, T* sum, bool whole) {
  constexpr int width = pack_width<T>;
  for (int k = 0; RowShare<T, threads>::first(k) < n; ++k) {
    const int64_t first = RowShare<T, threads>::first(k);
    Floats<width> values = load<width>(a, first, n, whole);
    const Floats<width> more = load<width>(b, first, n, whole);
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] += more[i];
    store<width>(sum, first, n, whole, values);
  }
}

template <class T, int threads, bool centred>
__global__ void __launch_bounds__(block_threads) norm_forward_kernel(NormForward<T> call, bool whole) {
  const int64_t row = row_of_thread<threads>();
  if (row >= call.rows) return;
  const int64_t n = call.channels;
  const T* x = call.x + row * n;
  if (call.addend != nullptr) {
    add_row<T, threads>(x, call.addend + row * n, n, call.sum + row * n, whole);
    x = call.sum + row * n;
  }
  const Statistics found =
      norm_row<T, threads, centred>(x, call.weight, call.bias, n, call.epsilon, call.y + row * n, whole);
  if (threadIdx.x % threads == 0) {
    if (centred) call.mean[row] = found.mean;
    call.rstd[row] = found.rstd;
  }
}

/// dx (n) = dresidual (n; may be absent) + rstd (g − mean of g − x̂ · mean of g x̂), g = dy · weight,
/// x̂ = (x − mean) rstd; without the means of g and x for the RMS norm.
template <class T, int threads, bool centred>
__device__ void backward_row(const T* dy, const T* x, const float* weight, int64_t n, float mean, float rstd,
                             const T* dresidual, T* dx, bool whole) {
  constexpr int width = pack_width<T>;
  using Share = RowShare<T, threads>;
  const Share gradients(dy, n, whole);
  const Share values(x, n, whole);
  float sum = 0;
  float dot = 0;
  Share::each_pair(gradients, values, [&](int64_t first, const Floats<width>& g, const Floats<width>& v) {
    const Floats<width> w = load<width>(weight, first, n, whole);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const float gradient = g[i] * w[i];  // 0 beyond the end
      sum += gradient;
      dot += gradient * ((v[i] - mean) * rstd);
    }
  });
  const auto count = static_cast<float>(n);
  const float mean_gradient = centred ? reduce_sum<threads>(sum) / count : 0.0F;
  const float mean_dot = reduce_sum<threads>(dot) / count;
  Share::each_pair(gradients, values, [&](int64_t first, const Floats<width>& g, const Floats<width>& v) {
    const Floats<width> w = load<width>(weight, first, n, whole);
    Floats<width> result;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      result[i] = rstd * fmaf(-((v[i] - mean) * rstd), mean_dot, g[i] * w[i] - mean_gradient);
    }
    if (dresidual != nullptr) {
      const Floats<width> residual = load<width>(dresidual, first, n, whole);
#pragma unroll
      for (int i = 0; i < width; ++i) result[i] = residual[i] + result[i];
    }
    store<width>(dx, first, n, whole, result);
  });
}

template <class T, int threads, bool centred>
__global__ void __launch_bounds__(block_threads) norm_backward_kernel(NormBackward<T> call, bool whole) {
  const int64_t row = row_of_thread<threads>();
  if (row >= call.rows) return;
  const int64_t n = call.channels;
  backward_row<T, threads, centred>(
      call.dy + row * n, call.x + row * n, call.weight, n, centred ? call.mean[row] : 0.0F, call.rstd[row],
      call.dresidual == nullptr ? nullptr : call.dresidual + row * n, call.dx + row * n, whole);
}

/// A warp a head; the value heads, which have no norm, are copied.
template <class T>
__global__ void __launch_bounds__(block_threads) head_norm_forward_kernel(HeadNorm<T> call, bool whole) {
  const int64_t all_heads = call.heads + 2 * call.kv_heads;
  const int64_t normed = call.heads + call.kv_heads;
  const int64_t row = row_of_thread<warp_threads>();
  if (row >= call.tokens * all_heads) return;
  const int64_t token = row / all_heads;
  const int64_t head = row - token * all_heads;
  const int64_t n = call.head_dim;
  const T* const x = call.qkv + row * n;
  T* const y = call.out + row * n;
  if (head >= normed) {
    RowShare<T, warp_threads>(x, n, whole).each([&](int64_t first, const Floats<pack_width<T>>& values) {
      store<pack_width<T>>(y, first, n, whole, values);
    });
    return;
  }
  const float* const weight = head < call.heads ? call.weight_q : call.weight_k;
  const Statistics found = norm_row<T, warp_threads, false>(x, weight, nullptr, n, call.epsilon, y, whole);
  if (threadIdx.x % warp_threads == 0) call.rstd_out[token * normed + head] = found.rstd;
}

template <class T>
__global__ void __launch_bounds__(block_threads) head_norm_backward_kernel(HeadNorm<T> call, bool whole) {
  const int64_t normed = call.heads + call.kv_heads;
  const int64_t row = row_of_thread<warp_threads>();
  if (row >= call.tokens * normed) return;
  const int64_t token = row / normed;
  const int64_t head = row - token * normed;
  const int64_t n = call.head_dim;
  const int64_t offset = (token * (call.heads + 2 * call.kv_heads) + head) * n;
  backward_row<T, warp_threads, false>(call.dqkv + offset, call.qkv + offset,
                                       head < call.heads ? call.weight_q : call.weight_k, n, 0.0F,
                                       call.rstd[row], nullptr, call.dqkv + offset, whole);
}

template <class T, bool centred>
void norm_forward(const char* name, StreamHandle stream, const NormForward<T>& call) {
  const bool whole = call.channels % pack_width<T> == 0 && aligned(call.x, call.addend, call.sum, call.y) &&
                     aligned(call.weight, call.bias);
  const auto start = [&]<int threads>(std::integral_constant<int, threads>) {
    launch(name, norm_forward_kernel<T, threads, centred>,
           {.blocks_x = blocks_of_rows<threads>(call.rows), .threads = block_threads}, stream, call, whole);
  };
  if (call.channels <= warp_channels<T>) {
    start(std::integral_constant<int, warp_threads>{});
  } else {
    start(std::integral_constant<int, block_threads>{});
  }
}

template <class T, bool centred>
void norm_backward(const char* name, StreamHandle stream, const NormBackward<T>& call) {
  const bool whole = call.channels % pack_width<T> == 0 &&
                     aligned(call.dy, call.x, call.dresidual, call.dx) && aligned(call.weight);
  // The gradients of weight and bias first: dx may be dy's memory.
  column_sums<T, true, centred>(name, stream,
                                {.dy = call.dy,
                                 .x = call.x,
                                 .mean = call.mean,
                                 .rstd = call.rstd,
                                 .dweight = call.dweight,
                                 .dbias = call.dbias,
                                 .rows = call.rows,
                                 .columns = call.channels,
                                 .heads = 1,
                                 .token_stride = call.channels,
                                 .statistics_stride = 1,
                                 .whole = false});
  const auto start = [&]<int threads>(std::integral_constant<int, threads>) {
    launch(name, norm_backward_kernel<T, threads, centred>,
           {.blocks_x = blocks_of_rows<threads>(call.rows), .threads = block_threads}, stream, call, whole);
  };
  if (call.channels <= warp_channels<T>) {
    start(std::integral_constant<int, warp_threads>{});
  } else {
    start(std::integral_constant<int, block_threads>{});
  }
}

}  // namespace

template <class T>
void layer_norm_forward(StreamHandle stream, const NormForward<T>& call) {
  norm_forward<T, true>("layer_norm_forward", stream, call);
}
template <class T>
void rms_norm_forward(StreamHandle stream, const NormForward<T>& call) {
  norm_forward<T, false>("rms_norm_forward", stream, call);
}
template <class T>
void layer_norm_backward(StreamHandle stream, const NormBackward<T>& call) {
  norm_backward<T, true>("layer_norm_backward", stream, call);
}
template <class T>
void rms_norm_backward(StreamHandle stream, const NormBackward<T>& call) {
  norm_backward<T, false>("rms_norm_backward", stream, call);
}

template <class T>
void head_norm_forward(StreamHandle stream, const HeadNorm<T>& call) {
  const bool whole = call.head_dim % pack_width<T> == 0 && aligned(call.qkv, call.out) &&
                     aligned(call.weight_q, call.weight_k);
  const int64_t rows = call.tokens * (call.heads + 2 * call.kv_heads);
  launch("head_norm_forward", head_norm_forward_kernel<T>,
         {.blocks_x = blocks_of_rows<warp_threads>(rows), .threads = block_threads}, stream, call, whole);
}

template <class T>
void head_norm_backward(StreamHandle stream, const HeadNorm<T>& call) {
  const bool whole = call.head_dim % pack_width<T> == 0 && aligned(call.qkv, call.dqkv) &&
                     aligned(call.weight_q, call.weight_k);
  const int64_t normed = call.heads + call.kv_heads;
  // The weights' gradients read dqkv before it is overwritten.
  const auto weight_gradient = [&](int64_t first_head, int64_t heads, float* dweight) {
    const int64_t offset = first_head * call.head_dim;
    column_sums<T, true, false>("head_norm_backward", stream,
                                {.dy = call.dqkv + offset,
                                 .x = call.qkv + offset,
                                 .mean = nullptr,
                                 .rstd = call.rstd + first_head,
                                 .dweight = dweight,
                                 .dbias = nullptr,
                                 .rows = call.tokens * heads,
                                 .columns = call.head_dim,
                                 .heads = heads,
                                 .token_stride = (call.heads + 2 * call.kv_heads) * call.head_dim,
                                 .statistics_stride = normed,
                                 .whole = false});
  };
  weight_gradient(0, call.heads, call.dweight_q);
  weight_gradient(call.heads, call.kv_heads, call.dweight_k);
  launch("head_norm_backward", head_norm_backward_kernel<T>,
         {.blocks_x = blocks_of_rows<warp_threads>(call.tokens * normed), .threads = block_threads}, stream,
         call, whole);
}

#define PENSTOCK_INSTANTIATE(T)                                            \
  template void layer_norm_forward(StreamHandle, const NormForward<T>&);   \
  template void rms_norm_forward(StreamHandle, const NormForward<T>&);     \
  template void layer_norm_backward(StreamHandle, const NormBackward<T>&); \
  template void rms_norm_backward(StreamHandle, const NormBackward<T>&);   \
  template void head_norm_forward(StreamHandle, const HeadNorm<T>&);       \
  template void head_norm_backward(StreamHandle, const HeadNorm<T>&);
PENSTOCK_INSTANTIATE(float)
PENSTOCK_INSTANTIATE(bfloat16)
PENSTOCK_INSTANTIATE(float16)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock::cuda
