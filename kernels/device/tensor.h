#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/device/dtype.h"

namespace penstock {

/// At most four extents, outermost first.
struct Shape {
  std::array<int64_t, 4> extent{};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);

  /// Product of the extents; 1 for rank 0.
  int64_t elements() const;
  int64_t operator[](int axis) const { return extent[static_cast<size_t>(axis)]; }
  bool operator==(const Shape&) const = default;
};

/// "(256, 768)".
std::string to_string(const Shape& shape);

/// A non-owning, contiguous view of device memory. No strides, no broadcasting, no autograd; copying it
/// copies the view. A default-constructed tensor is absent: `if (tensor)` asks.
struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::fp32;

  Tensor() = default;
  Tensor(void* memory, DType type, Shape extents) : data(memory), shape(extents), dtype(type) {}

  explicit operator bool() const { return data != nullptr; }
  int64_t elements() const { return shape.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }

  /// The same memory under another shape of as many elements; UsageError if the numbers differ.
  Tensor view(Shape extents) const;
  /// Rows [begin, begin + count) of the outermost axis; UsageError outside the extent.
  Tensor rows(int64_t begin, int64_t count) const;
};

}  // namespace penstock
