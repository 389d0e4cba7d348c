#include "kernels/device/tensor.h"

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock {

Shape::Shape(std::initializer_list<int64_t> extents) {
  if (extents.size() > extent.size()) {
    throw UsageError(
        fmt::format("a shape has at most {} extents, {} were given", extent.size(), extents.size()));
  }
  for (const int64_t value : extents) extent[static_cast<size_t>(rank++)] = value;
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int axis = 0; axis < rank; ++axis) product *= (*this)[axis];
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int axis = 0; axis < shape.rank; ++axis) text += fmt::format("{}{}", axis ? ", " : "", shape[axis]);
  return text + ")";
}

Tensor Tensor::view(Shape extents) const {
  if (extents.elements() != elements()) {
    throw UsageError(
        fmt::format("cannot view a tensor of shape {} as {}", to_string(shape), to_string(extents)));
  }
  return {data, dtype, extents};
}

Tensor Tensor::rows(int64_t begin, int64_t count) const {
  if (shape.rank == 0 || begin < 0 || count < 0 || begin + count > shape[0]) {
    throw UsageError(
        fmt::format("rows {} to {} lie outside shape {}", begin, begin + count, to_string(shape)));
  }
  Tensor part = *this;
  part.shape.extent[0] = count;
  const int64_t row = shape[0] == 0 ? 0 : elements() / shape[0];
  part.data = static_cast<char*>(data) + static_cast<size_t>(begin * row) * size_of(dtype);
  return part;
}

}  // namespace penstock
