#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device/tensor.h"

namespace penstock::testing {

/// Whose memory: the host's, or that of what is tested (the same, unless a GPU is tested).
enum class Place : uint8_t { host, tested };

/// A tensor with 256 guard bytes right before and right after it. The address sanitizer stops whoever touches
/// them (before the tensor: up to the last multiple of 8).
class GuardedBuffer {
 public:
  /// Lies `shift_elements` elements behind an address that is a multiple of 4096.
  GuardedBuffer(std::string name, DType dtype, const Shape& shape, size_t shift_elements,
                Place place = Place::tested);

  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  const std::string& name() const { return name_; }
  Tensor tensor() const { return tensor_; }
  /// NaN in every element (integers: a value no test uses).
  void poison();
  void write(const std::vector<double>& values);
  /// All of the tensor's bytes.
  void write_bytes(const void* bytes);
  std::vector<double> read() const;
  /// The tensor's bytes.
  std::vector<uint8_t> bytes() const;
  /// Fails the test if a guard byte changed.
  void check_guards() const;

 private:
  void forbid_guards() const;
  void allow_guards() const;
  /// Where the memory is not the host's: `memory_` to there, and from there.
  void send();
  void fetch() const;

  std::string name_;
  mutable std::vector<uint8_t> memory_;
  void* elsewhere_ = nullptr;  ///< as long as memory_, which is its copy
  size_t offset_ = 0;
  Tensor tensor_;
  Tensor host_;  ///< the tensor in memory_
};

}  // namespace penstock::testing
