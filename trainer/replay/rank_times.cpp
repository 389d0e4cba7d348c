#include "trainer/replay/rank_times.h"

#include <algorithm>

namespace penstock::replay {

accounting::RankTimes times_of(const RankStep& rank, const schedule::Program& program,
                               const runtime::ReplayTimes& times, uint64_t step, int number) {
  using accounting::Part;
  accounting::RankTimes result;
  take_stamps(rank.stamps, 0, result.instructions);
  const runtime::StepTimes& at = rank.times;
  result.host[0] = {Part::evaluation, at.begin, at.evaluated};
  result.host[1] = {Part::checkpoint, at.evaluated, at.checkpointed};
  result.host[2] = {Part::data, at.checkpointed, at.loaded};
  const bool late = times.host(step, number) > 0;
  const auto& list = program.ranks[static_cast<size_t>(number)].instructions;
  for (size_t i = 0; i < list.size(); ++i) {
    accounting::InstructionTimes& each = result.instructions[i];
    each.enqueued = std::max(each.enqueued, at.loaded);
    if (late && list[i].kind == schedule::InstructionKind::compute)
      each.enqueued = std::max(each.enqueued, each.start);
  }
  return result;
}

}  // namespace penstock::replay
