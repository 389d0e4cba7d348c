#include "tests/simt/shared_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "tests/simt/block.h"

namespace penstock::simt {
namespace {

ptrdiff_t offset_in(const SharedRegion& region, const void* address, size_t bytes, size_t alignment,
                    const std::source_location& place) {
  // As numbers: an address outside may be anything.
  const auto offset = static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(address) -
                                             reinterpret_cast<uintptr_t>(region.begin));
  if (offset < 0 || offset + static_cast<ptrdiff_t>(bytes) > static_cast<ptrdiff_t>(region.bytes)) {
    fault(fmt::format("{} bytes at offset {} are outside {}, which has {} bytes", bytes, offset, region.name,
                      region.bytes),
          place);
  }
  if (static_cast<size_t>(offset) % alignment != 0) {
    fault(fmt::format("{} bytes at offset {} of {} are not aligned to {}", bytes, offset, region.name,
                      alignment),
          place);
  }
  return offset;
}

}  // namespace

const SharedRegion* dynamic_shared_region() {
  return &Machine::of_this_thread().dynamic_shared();
}

void check_shared_read(const SharedRegion& region, const void* address, size_t bytes, size_t alignment,
                       const std::source_location& place) {
  const ptrdiff_t offset = offset_in(region, address, bytes, alignment, place);
  for (const ptrdiff_t byte : {offset, offset + static_cast<ptrdiff_t>(bytes) - 1}) {
    if (region.written[byte] != current_block) {
      fault(fmt::format("reads {} at offset {} before this block has written it", region.name, byte), place);
    }
  }
}

void check_shared_write(const SharedRegion& region, const void* address, size_t bytes, size_t alignment,
                        const std::source_location& place) {
  const ptrdiff_t offset = offset_in(region, address, bytes, alignment, place);
  std::fill_n(region.written + offset, bytes, current_block);
}

}  // namespace penstock::simt
