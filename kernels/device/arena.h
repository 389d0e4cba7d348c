#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device/tensor.h"

namespace penstock {

/// What a byte of device memory is for. Every arena belongs to one tag; `plan` and the run print the same
/// table.
enum class ArenaTag : uint8_t { parameters, gradients, optimizer, activations, communication, workspace };
inline constexpr int arena_tag_count = 6;
std::string_view name_of(ArenaTag tag);

/// Every tensor starts at a multiple of this many bytes (contract C1 f).
inline constexpr size_t alignment_bytes = 256;
constexpr size_t aligned(size_t bytes) {
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

/// One named piece of an arena.
struct Allocation {
  std::string name;
  size_t offset = 0;
  size_t bytes = 0;
};

/// Memory of one tag: reserved once, touched, then handed out by name until it is used up; never grown.
///
/// allocate() is for start-up, re-partition and schedule changes; nothing is allocated inside a step.
class Arena {
 public:
  using Deleter = void (*)(void*, size_t);

  /// Takes over `capacity` bytes at `memory`; `release` gives them back.
  Arena(ArenaTag tag, void* memory, size_t capacity, Deleter release);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` rounded up to the alignment, uninitialised. DeviceError with the table of all allocations if
  /// they do not fit, naming what was asked for and what is left.
  void* allocate(std::string_view name, size_t bytes);
  Tensor allocate(std::string_view name, DType dtype, Shape shape);
  /// Forgets every allocation; the memory stays.
  void reset();

  ArenaTag tag() const { return tag_; }
  size_t capacity() const { return capacity_; }
  size_t used() const { return used_; }
  const std::vector<Allocation>& allocations() const { return allocations_; }
  /// One line an allocation: name, offset, bytes.
  std::string table() const;

 private:
  ArenaTag tag_;
  char* memory_;
  size_t capacity_;
  size_t used_ = 0;
  Deleter release_;
  std::vector<Allocation> allocations_;
};

}  // namespace penstock
