#include "kernels/transport/reduce_elements.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"

namespace penstock::transport {
namespace {

template <class A>
struct Sum {
  A operator()(A a, A b) const {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;  // integers wrap
      return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
template <class A>
struct Maximum {
  A operator()(A a, A b) const { return a < b ? b : a; }
};
template <class A>
struct Minimum {
  A operator()(A a, A b) const { return b < a ? b : a; }
};

/// T is stored, A is computed in.
template <class T, class A, class Combine>
void reduce(Combine combine, std::span<const void* const> inputs, int64_t from,
            std::span<void* const> outputs, int64_t to, int64_t count) {
  constexpr int64_t block = 1024;
  std::array<A, block> sums;
  for (int64_t at = 0; at < count; at += block) {
    const auto n = static_cast<size_t>(std::min(block, count - at));
    const T* first = static_cast<const T*>(inputs[0]) + from + at;
    for (size_t i = 0; i < n; ++i) sums[i] = static_cast<A>(first[i]);
    for (const void* input : inputs.subspan(1)) {
      const T* values = static_cast<const T*>(input) + from + at;
      for (size_t i = 0; i < n; ++i) sums[i] = combine(sums[i], static_cast<A>(values[i]));
    }
    for (void* output : outputs) {
      T* values = static_cast<T*>(output) + to + at;
      for (size_t i = 0; i < n; ++i) values[i] = static_cast<T>(sums[i]);
    }
  }
}

template <class T, class A>
void reduce(Reduction reduction, std::span<const void* const> inputs, int64_t from,
            std::span<void* const> outputs, int64_t to, int64_t count) {
  switch (reduction) {
    case Reduction::sum:
      return reduce<T, A>(Sum<A>(), inputs, from, outputs, to, count);
    case Reduction::maximum:
      return reduce<T, A>(Maximum<A>(), inputs, from, outputs, to, count);
    case Reduction::minimum:
      return reduce<T, A>(Minimum<A>(), inputs, from, outputs, to, count);
  }
}

}  // namespace

bool reducible(DType dtype) {
  return dtype != DType::u8;
}

void reduce_elements(DType dtype, Reduction reduction, std::span<const void* const> inputs, int64_t from,
                     std::span<void* const> outputs, int64_t to, int64_t count) {
  switch (dtype) {
    case DType::fp32:
      return reduce<float, float>(reduction, inputs, from, outputs, to, count);
    case DType::fp64:
      return reduce<double, double>(reduction, inputs, from, outputs, to, count);
    case DType::bf16:
      return reduce<bfloat16, float>(reduction, inputs, from, outputs, to, count);
    case DType::i32:
      return reduce<int32_t, int32_t>(reduction, inputs, from, outputs, to, count);
    case DType::i64:
      return reduce<int64_t, int64_t>(reduction, inputs, from, outputs, to, count);
    case DType::fp16:
      return reduce<float16, float>(reduction, inputs, from, outputs, to, count);
    case DType::u8:
      return;  // refused by Communicator before they are queued
  }
}

}  // namespace penstock::transport
