#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/device/tensor.h"

namespace penstock::transport {

/// Host memory of one tensor, poisoned, with a guard behind it. Elements are small whole numbers, exact in
/// every dtype, and so are their sums over a few ranks: data is compared with ==.
class Buffer {
 public:
  Buffer(DType dtype, int64_t elements);

  Tensor tensor() const { return Tensor(memory_.get(), dtype_, Shape{elements_}); }
  /// Elements [begin, begin + count).
  Tensor part(int64_t begin, int64_t count) const { return tensor().rows(begin, count); }
  int64_t elements() const { return elements_; }
  void set(int64_t element, int value);
  int get(int64_t element) const;
  /// Element i = pattern(seed, i).
  Buffer& fill(int seed);

  /// In 0…13, differing between seeds and elements.
  static int pattern(int seed, int64_t element);

 private:
  friend class Expectation;
  bool guard_intact() const;

  DType dtype_;
  int64_t elements_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> memory_;
};

/// Empty if every element is pattern(seed, i) and nothing was written behind the last; else the first
/// difference.
std::string difference_from(const Buffer& buffer, int seed);
/// Checks elements one by one; see difference().
class Expectation {
 public:
  explicit Expectation(const Buffer& buffer) : buffer_(buffer) {}
  void element(int64_t index, int expected);
  std::string result() const;

 private:
  const Buffer& buffer_;
  std::string first_;
};

/// As difference_from, for elements given by `expected(i)`.
template <class Expected>
std::string difference(const Buffer& buffer, Expected expected) {
  Expectation expectation(buffer);
  for (int64_t i = 0; i < buffer.elements(); ++i) expectation.element(i, expected(i));
  return expectation.result();
}

}  // namespace penstock::transport
