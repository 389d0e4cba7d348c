#include <cmath>
#include <type_traits>

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pointwise_kernels.h"
#include "kernels/math/philox.h"

namespace penstock::cuda {
namespace {

constexpr int threads = 256;

LaunchShape one_thread_each(int64_t count) {
  return {.blocks_x = ceil_divide(count, threads), .threads = threads};
}
__device__ int64_t thread_number() {
  return static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
}

/// 1 / (1 + e^−x); the quick division is off by 2 units in the last place, and 0 where e^−x overflows.
__device__ float sigmoid(float x) {
  return __fdividef(1.0F, 1.0F + expf(-x));
}

constexpr float gelu_scale = 0.797884561F;  // √(2/π)
constexpr float gelu_cubic = 0.044715F;

/// x, kept where GELU is not yet exactly x or 0, so that its cube stays finite; NaN stays.
__device__ float gelu_argument(float x) {
  const float below = x > 30.0F ? 30.0F : x;
  return below < -30.0F ? -30.0F : below;
}
/// ½ (1 + tanh u) = sigmoid(2 u): one exponential, and no cancellation where tanh is near −1.
__device__ float gelu_gate(float argument) {
  const float cubic = gelu_cubic * argument * argument * argument;
  return sigmoid(2.0F * gelu_scale * (argument + cubic));
}

struct Gelu {
  __device__ float operator()(float x) const { return x * gelu_gate(gelu_argument(x)); }
};
struct GeluGradient {
  __device__ float operator()(float dy, float x) const {
    const float argument = gelu_argument(x);
    const float gate = gelu_gate(argument);
    const float slope = 2.0F * gelu_scale * fmaf(3.0F * gelu_cubic * argument, argument, 1.0F);
    return dy * fmaf(argument * gate * (1.0F - gate), slope, gate);
  }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};

/// Elements of a thread of an operation on From and To: a whole access of the narrower.
template <class From, class To>
constexpr int joint_width = pack_width<From> > pack_width<To> ? pack_width<From> : pack_width<To>;

template <class From, class To, class Operation>
__global__ void __launch_bounds__(threads)
    unary_kernel(const From* x, To* y, int64_t n, bool whole, Operation operation) {
  constexpr int width = joint_width<From, To>;
  const int64_t first = thread_number() * width;
  if (first >= n) return;
  Floats<width> values = load<width>(x, first, n, whole);
#pragma unroll
  for (int i = 0; i < width; ++i) values[i] = operation(values[i]);
  store<width>(y, first, n, whole, values);
}

template <class From, class To, class Operation>
void unary(const char* name, StreamHandle stream, const From* x, To* y, int64_t n, Operation operation) {
  launch(name, unary_kernel<From, To, Operation>, one_thread_each(ceil_divide(n, joint_width<From, To>)),
         stream, x, y, n, aligned(x, y), operation);
}

template <class T, class Operation>
__global__ void __launch_bounds__(threads)
    binary_kernel(const T* a, const T* b, T* y, int64_t n, bool whole, Operation operation) {
  constexpr int width = pack_width<T>;
  const int64_t first = thread_number() * width;
  if (first >= n) return;
  Floats<width> left = load<width>(a, first, n, whole);
  const Floats<width> right = load<width>(b, first, n, whole);
#pragma unroll
  for (int i = 0; i < width; ++i) left[i] = operation(left[i], right[i]);
  store<width>(y, first, n, whole, left);
}

template <class T, class Operation>
void binary(const char* name, StreamHandle stream, const T* a, const T* b, T* y, int64_t n,
            Operation operation) {
  launch(name, binary_kernel<T, Operation>, one_thread_each(ceil_divide(n, pack_width<T>)), stream, a, b, y,
         n, aligned(a, b, y), operation);
}

/// A thread's pack of a matrix with `width` columns.
struct RowPack {
  int64_t row;
  int64_t first;
};
template <int N>
__device__ RowPack row_pack(int64_t width) {
  const int64_t packs = (width + N - 1) / N;
  const int64_t number = thread_number();
  const int64_t row = number / packs;
  return {row, (number - row * packs) * N};
}
template <class T>
LaunchShape one_pack_each(int64_t rows, int64_t width) {
  return one_thread_each(rows * ceil_divide(width, pack_width<T>));
}

template <class T>
__global__ void __launch_bounds__(threads)
    swiglu_forward_kernel(const T* gate_up, T* y, int64_t rows, int64_t width, bool whole) {
  constexpr int n = pack_width<T>;
  const RowPack at = row_pack<n>(width);
  if (at.row >= rows) return;
  const T* const gates = gate_up + at.row * 2 * width;
  Floats<n> gate = load<n>(gates, at.first, width, whole);
  const Floats<n> up = load<n>(gates + width, at.first, width, whole);
#pragma unroll
  for (int i = 0; i < n; ++i) gate[i] = gate[i] * sigmoid(gate[i]) * up[i];
  store<n>(y + at.row * width, at.first, width, whole, gate);
}

template <class T>
__global__ void __launch_bounds__(threads) swiglu_backward_kernel(const T* dy, const T* gate_up, T* dgate_up,
                                                                  int64_t rows, int64_t width, bool whole) {
  constexpr int n = pack_width<T>;
  const RowPack at = row_pack<n>(width);
  if (at.row >= rows) return;
  const T* const gates = gate_up + at.row * 2 * width;
  T* const dgates = dgate_up + at.row * 2 * width;
  const Floats<n> gradient = load<n>(dy + at.row * width, at.first, width, whole);
  Floats<n> gate = load<n>(gates, at.first, width, whole);
  Floats<n> up = load<n>(gates + width, at.first, width, whole);
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const float s = sigmoid(gate[i]);
    const float dgate = gradient[i] * up[i] * s * fmaf(gate[i], 1.0F - s, 1.0F);
    up[i] = gradient[i] * (gate[i] * s);
    gate[i] = dgate;
  }
  store<n>(dgates, at.first, width, whole, gate);
  store<n>(dgates + width, at.first, width, whole, up);
}

template <class T>
__global__ void __launch_bounds__(threads)
    add_bias_kernel(const float* bias, T* y, int64_t rows, int64_t columns, bool whole) {
  constexpr int n = pack_width<T>;
  const RowPack at = row_pack<n>(columns);
  if (at.row >= rows) return;
  Floats<n> values = load<n>(y + at.row * columns, at.first, columns, whole);
  const Floats<n> b = load<n>(bias, at.first, columns, whole);
#pragma unroll
  for (int i = 0; i < n; ++i) values[i] += b[i];
  store<n>(y + at.row * columns, at.first, columns, whole, values);
}

/// A thread rotates a pack of the first half of a head and its partners of the second.
template <class T>
__global__ void __launch_bounds__(threads) rope_kernel(Rope<T> call, bool whole) {
  constexpr int n = pack_width<T>;
  const int64_t half = call.head_dim / 2;
  const RowPack at = row_pack<n>(half);
  if (at.row >= call.tokens * call.rotated_heads) return;
  const int64_t token = at.row / call.rotated_heads;
  const int64_t head = at.row - token * call.rotated_heads;
  T* const head_values = call.qkv + token * call.row + head * call.head_dim;
  const float* const table = call.table + call.positions[token] * call.head_dim;
  const Floats<2 * n> angles = load<2 * n>(table, 2 * at.first, call.head_dim, whole);
  Floats<n> a = load<n>(head_values, at.first, half, whole);
  Floats<n> b = load<n>(head_values + half, at.first, half, whole);
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const float cosine = angles[2 * i];
    const float sine = call.sign * angles[2 * i + 1];
    const float rotated = a[i] * cosine - b[i] * sine;
    b[i] = b[i] * cosine + a[i] * sine;
    a[i] = rotated;
  }
  store<n>(head_values, at.first, half, whole, a);
  store<n>(head_values + half, at.first, half, whole, b);
}

template <class T>
__global__ void __launch_bounds__(threads)
    dropout_kernel(Dropout<T> call, uint32_t threshold, float scale, bool whole) {
  constexpr int n = pack_width<T>;
  const int64_t first = thread_number() * n;
  if (first >= call.elements) return;
  const auto sample = static_cast<uint64_t>(call.samples[blockIdx.y]);
  const int64_t offset = blockIdx.y * call.elements;
  const auto purpose = static_cast<uint32_t>(math::RandomPurpose::dropout);
  const auto step = static_cast<uint32_t>(call.scalars->step);
  Floats<n> values = load<n>(call.x + offset, first, call.elements, whole);
#pragma unroll
  for (int i = 0; i < n; i += 4) {
    const auto words =
        math::philox({static_cast<uint32_t>((first + i) / 4), static_cast<uint32_t>(sample), step,
                      purpose << 24 | call.site.site},
                     {static_cast<uint32_t>(call.site.seed),
                      static_cast<uint32_t>(call.site.seed >> 32) ^ static_cast<uint32_t>(sample >> 32)});
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[i + j] = words[static_cast<size_t>(j)] >= threshold ? values[i + j] * scale : 0.0F;
    }
  }
  store<n>(call.y + offset, first, call.elements, whole, values);
}

}  // namespace

template <class T>
void gelu_forward(StreamHandle stream, const T* x, T* y, int64_t n) {
  unary("gelu_forward", stream, x, y, n, Gelu{});
}
template <class T>
void gelu_backward(StreamHandle stream, const T* dy, const T* x, T* dx, int64_t n) {
  binary("gelu_backward", stream, dy, x, dx, n, GeluGradient{});
}
template <class T>
void add(StreamHandle stream, const T* a, const T* b, T* y, int64_t n) {
  binary("add", stream, a, b, y, n, Sum{});
}
template <class From, class To>
void convert(StreamHandle stream, const From* src, To* dst, int64_t n) {
  unary("convert", stream, src, dst, n, Same{});
}

template <class T>
void swiglu_forward(StreamHandle stream, const T* gate_up, T* y, int64_t rows, int64_t width) {
  launch("swiglu_forward", swiglu_forward_kernel<T>, one_pack_each<T>(rows, width), stream, gate_up, y, rows,
         width, aligned(gate_up, y) && width % pack_width<T> == 0);
}
template <class T>
void swiglu_backward(StreamHandle stream, const T* dy, const T* gate_up, T* dgate_up, int64_t rows,
                     int64_t width) {
  launch("swiglu_backward", swiglu_backward_kernel<T>, one_pack_each<T>(rows, width), stream, dy, gate_up,
         dgate_up, rows, width, aligned(dy, gate_up, dgate_up) && width % pack_width<T> == 0);
}

template <class T>
void add_bias(StreamHandle stream, const float* bias, T* y, int64_t rows, int64_t columns) {
  launch("add_bias", add_bias_kernel<T>, one_pack_each<T>(rows, columns), stream, bias, y, rows, columns,
         aligned(y) && aligned(bias) && columns % pack_width<T> == 0);
}
template <class T>
void backward_bias(StreamHandle stream, const T* dy, float* dbias, int64_t rows, int64_t columns) {
  column_sums<T, false, true>("backward_bias", stream,
                              {.dy = dy,
                               .x = nullptr,
                               .mean = nullptr,
                               .rstd = nullptr,
                               .dweight = nullptr,
                               .dbias = dbias,
                               .rows = rows,
                               .columns = columns,
                               .heads = 1,
                               .token_stride = columns,
                               .statistics_stride = 1,
                               .whole = false});
}

template <class T>
void rope(StreamHandle stream, const Rope<T>& call) {
  const bool whole = aligned(call.qkv) && aligned(call.table) && call.row % pack_width<T> == 0 &&
                     call.head_dim / 2 % pack_width<T> == 0;
  launch("rope", rope_kernel<T>, one_pack_each<T>(call.tokens * call.rotated_heads, call.head_dim / 2),
         stream, call, whole);
}

template <class T>
void dropout(StreamHandle stream, const Dropout<T>& call) {
  const auto threshold =
      static_cast<uint32_t>(std::ceil(static_cast<double>(call.site.probability) * 4294967296.0));
  LaunchShape shape = one_thread_each(ceil_divide(call.elements, pack_width<T>));
  shape.blocks_y = call.batch;
  launch("dropout", dropout_kernel<T>, shape, stream, call, threshold, 1.0F / (1.0F - call.site.probability),
         aligned(call.x, call.y) && call.elements % pack_width<T> == 0);
}

template void convert(StreamHandle, const float*, float*, int64_t);
template void convert(StreamHandle, const float*, bfloat16*, int64_t);
template void convert(StreamHandle, const bfloat16*, float*, int64_t);
template void convert(StreamHandle, const bfloat16*, bfloat16*, int64_t);
template void convert(StreamHandle, const float*, float16*, int64_t);
template void convert(StreamHandle, const float16*, float*, int64_t);
template void convert(StreamHandle, const bfloat16*, float16*, int64_t);
template void convert(StreamHandle, const float16*, bfloat16*, int64_t);
template void convert(StreamHandle, const float16*, float16*, int64_t);
#define PENSTOCK_INSTANTIATE(T)                                                          \
  template void gelu_forward(StreamHandle, const T*, T*, int64_t);                       \
  template void gelu_backward(StreamHandle, const T*, const T*, T*, int64_t);            \
  template void add(StreamHandle, const T*, const T*, T*, int64_t);                      \
  template void swiglu_forward(StreamHandle, const T*, T*, int64_t, int64_t);            \
  template void swiglu_backward(StreamHandle, const T*, const T*, T*, int64_t, int64_t); \
  template void add_bias(StreamHandle, const float*, T*, int64_t, int64_t);              \
  template void backward_bias(StreamHandle, const T*, float*, int64_t, int64_t);         \
  template void rope(StreamHandle, const Rope<T>&);                                      \
  template void dropout(StreamHandle, const Dropout<T>&);
PENSTOCK_INSTANTIATE(float)
PENSTOCK_INSTANTIATE(bfloat16)
PENSTOCK_INSTANTIATE(float16)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock::cuda
