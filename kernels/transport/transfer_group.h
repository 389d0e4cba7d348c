#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::transport {

/// One message of a group, as implementations see it.
struct Transfer {
  std::byte* data = nullptr;
  size_t bytes = 0;
  uint32_t sequence = 0;  ///< counts the messages from sender to receiver in this communicator; wraps
  int peer = 0;           ///< rank in the communicator
  bool sends = false;
};

/// The messages of one exchange. Up to `in_place` of them are held without allocating.
class TransferGroup {
 public:
  static constexpr size_t in_place = 16;

  explicit TransferGroup(size_t size) : size_(size) {
    if (size > in_place) many_.resize(size);
  }
  std::span<Transfer> all() { return {size_ > in_place ? many_.data() : few_.data(), size_}; }
  std::span<const Transfer> all() const { return {size_ > in_place ? many_.data() : few_.data(), size_}; }

 private:
  size_t size_;
  std::array<Transfer, in_place> few_;
  std::vector<Transfer> many_;
};

}  // namespace penstock::transport
