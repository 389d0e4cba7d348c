#include "trainer/accounting/rank_times.h"

namespace penstock::accounting {

void take_stamps(std::span<const runtime::Stamp> stamps, double offset,
                 std::vector<InstructionTimes>& times) {
  times.resize(stamps.size());
  auto to = times.begin();
  for (const runtime::Stamp& stamp : stamps) {
    // 0 says that nobody looked, whatever the clocks.
    *to++ = {stamp.enqueued == 0 ? 0 : stamp.enqueued - offset, stamp.start - offset,
             stamp.middle == 0 ? 0 : stamp.middle - offset, stamp.end - offset};
  }
}

RankTimes times_of(const schedule::Timeline& timeline, size_t rank) {
  RankTimes times;
  for (const schedule::Span& span : timeline.spans[rank])
    times.instructions.push_back({0, span.start, 0, span.end});
  return times;
}

}  // namespace penstock::accounting
