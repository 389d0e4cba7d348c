#pragma once

#include <array>
#include <memory>

#include "kernels/device/arena.h"

namespace penstock {

/// The arenas of a rank's device: at most one a tag, and one more that is set aside.
class ArenaTable {
 public:
  explicit ArenaTable(int rank) : rank_(rank) {}

  /// `reserve(capacity)` gives the memory, `release` takes it back. DeviceError if the tag has an arena.
  template <class Reserve>
  Arena& create(ArenaTag tag, size_t capacity, Arena::Deleter release, const Reserve& reserve) {
    check_absent(tag, capacity);
    std::unique_ptr<Arena>& place = arenas_[static_cast<size_t>(tag)];
    place = std::make_unique<Arena>(tag, reserve(capacity), capacity, release);
    return *place;
  }
  /// UsageError if the tag has none.
  Arena& at(ArenaTag tag);
  bool has(ArenaTag tag) const { return arenas_[static_cast<size_t>(tag)] != nullptr; }
  /// UsageError if the tag has none.
  void destroy(ArenaTag tag);
  /// UsageError if it is none of these.
  void destroy(const Arena& arena);
  /// UsageError if there are arenas aside.
  void set_aside();
  /// DeviceError if a tag of one of them has another one.
  void bring_back();
  /// "  parameters  1024 bytes", a line an arena, and their sum.
  std::string table() const;

 private:
  void check_absent(ArenaTag tag, size_t capacity) const;

  int rank_;
  using Arenas = std::array<std::unique_ptr<Arena>, arena_tag_count>;
  Arenas arenas_;
  Arenas aside_;
};

}  // namespace penstock
