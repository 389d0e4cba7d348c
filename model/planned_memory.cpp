#include "model/planned_memory.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::model {

namespace {

std::string key(ArenaTag tag, std::string_view name) {
  return fmt::format("{}/{}", name_of(tag), name);
}

}  // namespace

PlannedMemory::PlannedMemory(Device& device, MemoryPlan plan) : device_(device), plan_(std::move(plan)) {
  for (int index = 0; index < arena_tag_count; ++index) {
    const auto tag = static_cast<ArenaTag>(index);
    if (plan_.bytes(tag) > 0)
      arenas_.emplace_back(&device_.create_arena(tag, plan_.bytes(tag)), GiveBack{&device_});
  }
  for (const PlannedAllocation& piece : plan_.allocations) {
    void* memory = device_.arena(piece.tag).allocate(piece.name, piece.bytes);
    if (!pieces_.emplace(key(piece.tag, piece.name), Piece{memory, piece.bytes, false}).second) {
      throw UsageError(fmt::format("{} is planned twice", key(piece.tag, piece.name)));
    }
  }
}

void* PlannedMemory::claim(ArenaTag tag, std::string_view name, size_t bytes) {
  if (bytes == 0) return nullptr;
  const auto found = pieces_.find(key(tag, name));
  if (found == pieces_.end() || found->second.bytes != aligned(bytes) || found->second.claimed) {
    throw UsageError(fmt::format("{} bytes of {} were claimed; {}", bytes, key(tag, name),
                                 found == pieces_.end() ? "nothing of that name is planned"
                                 : found->second.claimed
                                     ? "somebody else has them"
                                     : fmt::format("{} are planned", found->second.bytes)));
  }
  found->second.claimed = true;
  return found->second.memory;
}

Tensor PlannedMemory::claim(ArenaTag tag, std::string_view name, DType dtype, Shape shape) {
  return {claim(tag, name, static_cast<size_t>(shape.elements()) * size_of(dtype)), dtype, shape};
}

std::vector<std::string> PlannedMemory::unclaimed() const {
  std::vector<std::string> names;
  for (const auto& [name, piece] : pieces_) {
    if (!piece.claimed) names.push_back(name);
  }
  return names;
}

}  // namespace penstock::model
