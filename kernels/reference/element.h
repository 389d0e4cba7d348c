#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device/bfloat16.h"
#include "kernels/device/error.h"
#include "kernels/device/float16.h"
#include "kernels/device/tensor.h"

/// The reference implementations compute in double and read and write any element type through these two.
namespace penstock::reference {

/// Element i of x, as a double.
inline double load(const Tensor& x, int64_t i) {
  switch (x.dtype) {
    case DType::fp64:
      return x.as<const double>()[i];
    case DType::fp32:
      return static_cast<double>(x.as<const float>()[i]);
    case DType::bf16:
      return static_cast<double>(static_cast<float>(x.as<const bfloat16>()[i]));
    case DType::fp16:
      return static_cast<double>(static_cast<float>(x.as<const float16>()[i]));
    case DType::i32:
      return x.as<const int32_t>()[i];
    case DType::i64:
      return static_cast<double>(x.as<const int64_t>()[i]);
    case DType::u8:
      break;
  }
  throw UsageError("the reference kernels do not read elements of this type");
}

/// Element i of x = value, rounded to nearest even.
inline void store(const Tensor& x, int64_t i, double value) {
  switch (x.dtype) {
    case DType::fp64:
      x.as<double>()[i] = value;
      return;
    case DType::fp32:
      x.as<float>()[i] = static_cast<float>(value);
      return;
    case DType::bf16:
      x.as<bfloat16>()[i] = bfloat16(static_cast<float>(value));
      return;
    case DType::fp16:
      x.as<float16>()[i] = float16(static_cast<float>(value));
      return;
    case DType::i32:
    case DType::i64:
    case DType::u8:
      break;
  }
  throw UsageError("the reference kernels do not write elements of this type");
}

/// All elements of x.
inline std::vector<double> load_all(const Tensor& x) {
  std::vector<double> values(static_cast<size_t>(x.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = load(x, static_cast<int64_t>(i));
  return values;
}

/// `value` as it will be read back once stored in `dtype` (contract C1 e).
inline double rounded(DType dtype, double value) {
  double cell = 0;
  const Tensor one(&cell, dtype, {1});
  store(one, 0, value);
  return load(one, 0);
}

}  // namespace penstock::reference
