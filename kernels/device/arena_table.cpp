#include "kernels/device/arena_table.h"

#include <utility>

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

void ArenaTable::destroy(const Arena& arena) {
  for (Arenas* arenas : {&arenas_, &aside_}) {
    std::unique_ptr<Arena>& place = (*arenas)[static_cast<size_t>(arena.tag())];
    if (place.get() != &arena) continue;
    place.reset();
    return;
  }
  throw UsageError(
      fmt::format("rank {}: an arena \"{}\" that is none of this device's", rank_, name_of(arena.tag())));
}

void ArenaTable::set_aside() {
  for (const std::unique_ptr<Arena>& arena : aside_) {
    if (!arena) continue;
    throw UsageError(fmt::format("rank {}: arena \"{}\" of {} bytes is set aside already", rank_,
                                 name_of(arena->tag()), arena->capacity()));
  }
  arenas_.swap(aside_);
}

void ArenaTable::bring_back() {
  for (const std::unique_ptr<Arena>& arena : aside_) {
    if (arena) check_absent(arena->tag(), arena->capacity());
  }
  for (std::unique_ptr<Arena>& arena : aside_) {
    if (arena) arenas_[static_cast<size_t>(arena->tag())] = std::move(arena);
  }
}

std::string ArenaTable::table() const {
  std::string text;
  size_t sum = 0;
  for (const Arenas* arenas : {&arenas_, &aside_}) {
    for (const std::unique_ptr<Arena>& arena : *arenas) {
      if (!arena) continue;
      text += fmt::format("  {:<14} {:>16} bytes{}\n", name_of(arena->tag()), arena->capacity(),
                          arenas == &aside_ ? ", set aside" : "");
      sum += arena->capacity();
    }
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
