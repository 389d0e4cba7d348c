#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

/// Element types of tensors. bf16 and fp16 are storage types: arithmetic on them is done in fp32.
enum class DType : uint8_t { fp32, bf16, fp16, fp64, i32, i64, u8 };

/// Bytes of one element.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
    case DType::i64:
      return 8;
    case DType::fp32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

/// "fp32", "bf16", … as job files and error messages write them.
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "fp32";
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
    case DType::fp64:
      return "fp64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
  }
  return "?";
}

}  // namespace penstock
