#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device/tensor.h"

namespace penstock::testing {

/// A tensor with 256 guard bytes right before and right after it. The address sanitizer stops whoever touches
/// them (before the tensor: up to the last multiple of 8).
class GuardedBuffer {
 public:
  /// Lies `shift_elements` elements behind an address that is a multiple of 4096.
  GuardedBuffer(std::string name, DType dtype, const Shape& shape, size_t shift_elements);

  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  const std::string& name() const { return name_; }
  Tensor tensor() const { return tensor_; }
  /// NaN in every element (integers: a value no test uses).
  void poison();
  void write(const std::vector<double>& values);
  std::vector<double> read() const;
  /// The tensor's bytes.
  std::vector<uint8_t> bytes() const;
  /// Fails the test if a guard byte changed.
  void check_guards() const;

 private:
  void forbid_guards() const;
  void allow_guards() const;

  std::string name_;
  std::vector<uint8_t> memory_;
  size_t offset_ = 0;
  Tensor tensor_;
};

}  // namespace penstock::testing
