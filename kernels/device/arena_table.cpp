#include "kernels/device/arena_table.h"

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock {

Arena& ArenaTable::at(ArenaTag tag) {
  std::unique_ptr<Arena>& place = arenas_[static_cast<size_t>(tag)];
  if (!place)
    throw UsageError(
        fmt::format("rank {}: there is no arena \"{}\"; create_arena makes it", rank_, name_of(tag)));
  return *place;
}

void ArenaTable::destroy(ArenaTag tag) {
  at(tag);
  arenas_[static_cast<size_t>(tag)].reset();
}

std::string ArenaTable::table() const {
  std::string text;
  size_t sum = 0;
  for (const std::unique_ptr<Arena>& arena : arenas_) {
    if (!arena) continue;
    text += fmt::format("  {:<14} {:>16} bytes\n", name_of(arena->tag()), arena->capacity());
    sum += arena->capacity();
  }
  return text + fmt::format("  {:<14} {:>16} bytes", "all arenas", sum);
}

void ArenaTable::check_absent(ArenaTag tag, size_t capacity) const {
  const std::unique_ptr<Arena>& place = arenas_[static_cast<size_t>(tag)];
  if (!place) return;
  throw DeviceError(
      fmt::format("rank {}: arena \"{}\" exists already, with {} bytes; destroy it before making one of {}",
                  rank_, name_of(tag), place->capacity(), capacity));
}

}  // namespace penstock
