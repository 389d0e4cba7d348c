#include "trainer/replay/replay_links.h"

#include <utility>
#include <vector>

namespace penstock::replay {

transport::InprocOptions replay_links(const schedule::Program& program, const runtime::ReplayTimes& times,
                                      int64_t message_bytes, uint64_t first_step) {
  const int ranks = program.schedule.ranks;
  transport::InprocOptions options;
  options.links = transport::LinkModel(ranks, {});
  // (P · P): messages a step.
  std::vector<uint32_t> messages(static_cast<size_t>(ranks) * static_cast<size_t>(ranks), 0);
  for (int source = 0; source < ranks; ++source) {
    for (int destination = 0; destination < ranks; ++destination) {
      const schedule::Link& link = times.costs().link(source, destination, ranks);
      // A link without occupancy has no limit: x / 0 is infinite.
      options.links.set(source, destination,
                        {link.latency, static_cast<double>(message_bytes) / link.occupancy});
    }
    for (const schedule::Instruction& each : program.ranks[static_cast<size_t>(source)].instructions) {
      if (each.kind == schedule::InstructionKind::send)
        ++messages[static_cast<size_t>(source) * static_cast<size_t>(ranks) + static_cast<size_t>(each.peer)];
    }
  }
  if (!times.disturbs_links()) return options;
  options.delay = [&times, ranks, first_step, messages = std::move(messages)](int source, int destination,
                                                                              uint32_t message) {
    const uint32_t a_step =
        messages[static_cast<size_t>(source) * static_cast<size_t>(ranks) + static_cast<size_t>(destination)];
    return times.link(first_step + message / a_step, source, destination);
  };
  return options;
}

}  // namespace penstock::replay
