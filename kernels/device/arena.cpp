#include "kernels/device/arena.h"

#include <iterator>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock {

std::string_view name_of(ArenaTag tag) {
  switch (tag) {
    case ArenaTag::parameters:
      return "parameters";
    case ArenaTag::gradients:
      return "gradients";
    case ArenaTag::optimizer:
      return "optimizer";
    case ArenaTag::activations:
      return "activations";
    case ArenaTag::communication:
      return "communication";
    case ArenaTag::workspace:
      return "workspace";
  }
  return "?";
}

Arena::Arena(ArenaTag tag, void* memory, size_t capacity, Deleter release)
    : tag_(tag), memory_(static_cast<char*>(memory)), capacity_(capacity), release_(release) {}

Arena::~Arena() {
  release_(memory_, capacity_);
}

void* Arena::allocate(std::string_view name, size_t bytes) {
  const size_t left = capacity_ - used_;
  // `bytes > left` first: rounding up a size near the largest number would wrap.
  if (bytes > left || aligned(bytes) > left) {
    throw DeviceError(fmt::format(
        "arena \"{}\" is used up: \"{}\" needs {} bytes, {} of {} are left; the plan and the run disagree. "
        "Allocated so far:\n{}",
        name_of(tag_), name, bytes, left, capacity_, table()));
  }
  void* piece = memory_ + used_;
  allocations_.push_back({std::string(name), used_, aligned(bytes)});
  used_ += aligned(bytes);
  return piece;
}

Tensor Arena::allocate(std::string_view name, DType dtype, Shape shape) {
  return {allocate(name, static_cast<size_t>(shape.elements()) * size_of(dtype)), dtype, shape};
}

void Arena::reset() {
  allocations_.clear();
  used_ = 0;
}

std::string Arena::table() const {
  std::string lines;
  for (const Allocation& piece : allocations_) {
    fmt::format_to(std::back_inserter(lines), "{:>16} {:>16}  {}\n", piece.offset, piece.bytes, piece.name);
  }
  return lines;
}

}  // namespace penstock
