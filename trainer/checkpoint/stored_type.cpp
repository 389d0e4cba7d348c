#include "trainer/checkpoint/stored_type.h"

#include <algorithm>
#include <array>

namespace penstock::checkpoint {
namespace {

struct Row {
  StoredType type;
  std::string_view name;
  size_t bytes;
  std::optional<DType> dtype;
};

constexpr std::array<Row, 15> rows{{
    {StoredType::boolean, "BOOL", 1, {}},
    {StoredType::u8, "U8", 1, DType::u8},
    {StoredType::i8, "I8", 1, {}},
    {StoredType::f8_e4m3, "F8_E4M3", 1, {}},
    {StoredType::f8_e5m2, "F8_E5M2", 1, {}},
    {StoredType::i16, "I16", 2, {}},
    {StoredType::u16, "U16", 2, {}},
    {StoredType::f16, "F16", 2, DType::fp16},
    {StoredType::bf16, "BF16", 2, DType::bf16},
    {StoredType::i32, "I32", 4, DType::i32},
    {StoredType::u32, "U32", 4, {}},
    {StoredType::f32, "F32", 4, DType::fp32},
    {StoredType::i64, "I64", 8, DType::i64},
    {StoredType::u64, "U64", 8, {}},
    {StoredType::f64, "F64", 8, DType::fp64},
}};

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<size_t>(rows[i].type) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order(), "a row is found by its enumerator");

const Row& row(StoredType type) {
  return rows[static_cast<size_t>(type)];
}

}  // namespace

size_t size_of(StoredType type) {
  return row(type).bytes;
}

std::string_view name_of(StoredType type) {
  return row(type).name;
}

std::optional<StoredType> stored_type(std::string_view name) {
  const auto* const found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  if (found == rows.end()) return {};
  return found->type;
}

StoredType stored_type(DType dtype) {
  return std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.dtype == dtype; })->type;
}

std::optional<DType> dtype_of(StoredType type) {
  return row(type).dtype;
}

}  // namespace penstock::checkpoint
