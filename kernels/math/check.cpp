#include "kernels/math/check.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::math {
namespace {

std::string names(std::initializer_list<DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) {
    text += fmt::format("{}{}", text.empty() ? "" : " or ", name_of(dtype));
  }
  return text;
}

bool contains(std::initializer_list<DType> dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

}  // namespace

void ArgumentCheck::fail(const std::string& what) const {
  throw UsageError(fmt::format("{}: {}", operation_, what));
}

const ArgumentCheck& ArgumentCheck::tensor(std::string_view name, const Tensor& x, const Shape& shape,
                                           std::initializer_list<DType> dtypes) const {
  if (!x) {
    fail(fmt::format("{} is absent; expected {} {}", name, names(dtypes), to_string(shape)));
  }
  if (!(x.shape == shape) || !contains(dtypes, x.dtype)) {
    fail(fmt::format("{} is {} {}; expected {} {}", name, name_of(x.dtype), to_string(x.shape), names(dtypes),
                     to_string(shape)));
  }
  return *this;
}

const ArgumentCheck& ArgumentCheck::optional(std::string_view name, const Tensor& x, const Shape& shape,
                                             std::initializer_list<DType> dtypes) const {
  return x ? tensor(name, x, shape, dtypes) : *this;
}

const ArgumentCheck& ArgumentCheck::present(std::string_view name, const Tensor& x,
                                            std::initializer_list<DType> dtypes) const {
  if (!x) {
    fail(fmt::format("{} is absent; expected {}", name, names(dtypes)));
  }
  if (!contains(dtypes, x.dtype)) {
    fail(fmt::format("{} is {} {}; expected {}", name, name_of(x.dtype), to_string(x.shape), names(dtypes)));
  }
  return *this;
}

const ArgumentCheck& ArgumentCheck::workspace(const Tensor& x, size_t bytes) const {
  if (bytes == 0) {
    return *this;
  }
  if (!x || x.dtype != DType::u8 || x.bytes() < bytes) {
    fail(fmt::format("workspace has {} bytes of {}; expected at least {} bytes of u8", x ? x.bytes() : 0,
                     name_of(x.dtype), bytes));
  }
  return *this;
}

const ArgumentCheck& ArgumentCheck::that(bool holds, std::string_view what) const {
  if (!holds) {
    fail(std::string(what));
  }
  return *this;
}

}  // namespace penstock::math
