#include "kernels/transport/inproc/collective_match.h"

#include <algorithm>

#include <fmt/format.h>

namespace penstock::transport {
namespace {

bool agree(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.reduction == b.reduction && a.root == b.root &&
         (a.kind == CollectiveKind::barrier ||
          (a.input.dtype == b.input.dtype && a.input.elements() == b.input.elements()));
}

}  // namespace

std::string described(const Collective& collective) {
  if (collective.kind == CollectiveKind::barrier) return "barrier";
  std::string text = fmt::format("{} of {} {} elements", name_of(collective.kind),
                                 collective.input.elements(), name_of(collective.input.dtype));
  if (collective.kind == CollectiveKind::broadcast) text += fmt::format(" from rank {}", collective.root);
  if (collective.kind == CollectiveKind::all_reduce || collective.kind == CollectiveKind::reduce_scatter)
    text += fmt::format(" ({})", name_of(collective.reduction));
  return text;
}

std::string mismatch(const Identity& who, std::span<const Collective> collectives) {
  const Collective& first = collectives.front();
  const auto other = std::find_if(collectives.begin(), collectives.end(),
                                  [&](const Collective& theirs) { return !agree(theirs, first); });
  if (other == collectives.end()) return {};
  return fmt::format(
      "{}: {} does {}, but {} does {}; every rank must enqueue the same collectives in the same order",
      who.label(), who.peer_label(0), described(first),
      who.peer_label(static_cast<int>(other - collectives.begin())), described(*other));
}

std::byte* block(void* memory, size_t index, size_t bytes) {
  return static_cast<std::byte*>(memory) + index * bytes;
}

}  // namespace penstock::transport
