#include <type_traits>

#include "kernels/cuda/combine_kernels.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"

namespace penstock::cuda {
namespace {

constexpr int threads = 256;
/// Few: it shares the GPU with products, and is bound by the memory of peers.
constexpr int64_t most_blocks = 64;

// bf16 and fp16 are combined in fp32, everything else in its own type.
template <class T>
__device__ T operand(T value) {
  return value;
}
__device__ float operand(bfloat16 value) {
  return to_float(value);
}
__device__ float operand(float16 value) {
  return to_float(value);
}
template <class T, class Sum>
__device__ void store(T& place, Sum value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
    place = from_float<T>(value);
  } else {
    place = value;
  }
}

// Integers wrap.
template <class T>
__device__ T combined(Combine how, T a, T b) {
  switch (how) {
    case Combine::maximum:
      return a < b ? b : a;
    case Combine::minimum:
      return b < a ? b : a;
    case Combine::sum:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
  } else {
    return a + b;
  }
}

template <class T>
__global__ void combine_kernel(CombinePointers pointers, Combine how, int64_t from, int64_t to,
                               int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * threads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += stride) {
    auto value = operand(static_cast<const T*>(pointers.inputs[0])[from + i]);
    for (int rank = 1; rank < pointers.input_count; ++rank)
      value = combined(how, value, operand(static_cast<const T*>(pointers.inputs[rank])[from + i]));
    for (int rank = 0; rank < pointers.output_count; ++rank)
      store(static_cast<T*>(pointers.outputs[rank])[to + i], value);
  }
}

template <class T>
void start(StreamHandle stream, const CombinePointers& pointers, Combine how, int64_t from, int64_t to,
           int64_t count) {
  const int64_t blocks = ceil_divide(count, threads);
  launch("combine", combine_kernel<T>,
         {.blocks_x = blocks < most_blocks ? blocks : most_blocks, .threads = threads}, stream, pointers, how,
         from, to, count);
}

}  // namespace

void combine(StreamHandle stream, DType dtype, const CombinePointers& pointers, Combine how, int64_t from,
             int64_t to, int64_t count) {
  switch (dtype) {
    case DType::fp32:
      return start<float>(stream, pointers, how, from, to, count);
    case DType::fp64:
      return start<double>(stream, pointers, how, from, to, count);
    case DType::bf16:
      return start<bfloat16>(stream, pointers, how, from, to, count);
    case DType::i32:
      return start<int32_t>(stream, pointers, how, from, to, count);
    case DType::i64:
      return start<int64_t>(stream, pointers, how, from, to, count);
    case DType::fp16:
      return start<float16>(stream, pointers, how, from, to, count);
    case DType::u8:
      break;  // no communicator combines them
  }
}

}  // namespace penstock::cuda
