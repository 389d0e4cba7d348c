#include "trainer/finite_state.h"

#include <cstdint>
#include <cstring>

#include <fmt/format.h>

namespace penstock {
namespace {

// How many have all bits of the exponent set.
template <class Bits>
int64_t count_of(const void* values, int64_t elements, Bits exponent) {
  const auto* at = static_cast<const Bits*>(values);
  int64_t count = 0;
  for (int64_t i = 0; i < elements; ++i) count += (at[i] & exponent) == exponent ? 1 : 0;
  return count;
}

int64_t nonfinite(const checkpoint::Source& source) {
  switch (source.dtype) {
    case DType::fp32:
      return count_of<uint32_t>(source.data, source.count, 0x7f800000);
    case DType::fp64:
      return count_of<uint64_t>(source.data, source.count, 0x7ff0000000000000);
    case DType::bf16:
      return count_of<uint16_t>(source.data, source.count, 0x7f80);
    case DType::fp16:
      return count_of<uint16_t>(source.data, source.count, 0x7c00);
    case DType::i32:
    case DType::i64:
    case DType::u8:
      return 0;
  }
  return 0;
}

}  // namespace

std::string nonfinite_values(const std::vector<checkpoint::Source>& sources, int rank) {
  int64_t bad = 0;
  std::string first;
  for (const checkpoint::Source& source : sources) {
    const int64_t here = nonfinite(source);
    bad += here;
    if (here > 0 && first.empty()) first = fmt::format("{} of {}", here, source.name);
  }
  if (bad == 0) return "";
  return fmt::format(
      "{} of the values of rank {} are NaN or infinite, first {}; such weights are never saved, go on from "
      "the last "
      "checkpoint",
      bad, rank, first);
}

}  // namespace penstock
