#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "kernels/device/tensor.h"

namespace penstock::math {

/// Checks the arguments of one operation at enqueue time; every failure is a UsageError that names the
/// operation, the tensor, what was found and what was expected. No allocation unless a check fails.
class ArgumentCheck {
 public:
  /// `operation` must outlive the check (a literal).
  explicit ArgumentCheck(std::string_view operation) : operation_(operation) {}

  /// Present, of this shape and of one of these types.
  const ArgumentCheck& tensor(std::string_view name, const Tensor& x, const Shape& shape,
                              std::initializer_list<DType> dtypes) const;
  /// Absent, or as tensor().
  const ArgumentCheck& optional(std::string_view name, const Tensor& x, const Shape& shape,
                                std::initializer_list<DType> dtypes) const;
  /// Present and of one of these types, whatever its shape.
  const ArgumentCheck& present(std::string_view name, const Tensor& x,
                               std::initializer_list<DType> dtypes) const;
  /// u8, at least `bytes` long; may be absent if bytes is 0.
  const ArgumentCheck& workspace(const Tensor& x, size_t bytes) const;
  /// `what` says what must hold: "tokens = 0 must be at least 1".
  const ArgumentCheck& that(bool holds, std::string_view what) const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string_view operation_;
};

}  // namespace penstock::math
