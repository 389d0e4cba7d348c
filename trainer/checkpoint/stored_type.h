#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/device/dtype.h"

namespace penstock::checkpoint {

/// Element types that a safetensors file may hold; more than a Tensor can have.
enum class StoredType : uint8_t {
  boolean,
  u8,
  i8,
  f8_e4m3,
  f8_e5m2,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64
};

/// Bytes of one element.
size_t size_of(StoredType type);

/// "F32", "BF16", … as the file writes it.
std::string_view name_of(StoredType type);

/// The type of that name; nothing for an unknown one.
std::optional<StoredType> stored_type(std::string_view name);

/// How a tensor's elements are stored.
StoredType stored_type(DType dtype);

/// The tensor type that holds such elements; nothing where there is none.
std::optional<DType> dtype_of(StoredType type);

}  // namespace penstock::checkpoint
