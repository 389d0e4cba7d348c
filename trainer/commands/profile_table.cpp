#include "trainer/commands/profile_table.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace penstock::commands {
namespace {

using planner::MeasuredLink;
using planner::MeasuredMode;
using planner::MeasuredSize;
using planner::MeasuredUnit;
using planner::Timing;

const MeasuredSize& nearest(const MeasuredUnit& unit, int64_t micro_batch) {
  return *std::min_element(
      unit.sizes.begin(), unit.sizes.end(), [&](const MeasuredSize& a, const MeasuredSize& b) {
        return std::abs(a.micro_batch - micro_batch) < std::abs(b.micro_batch - micro_batch);
      });
}

// "mlp", or whom an entry stands for: "mlp_0 ...".
std::string label(const MeasuredUnit& unit) {
  if (unit.only.empty()) return unit.kind;
  return unit.only.size() == 1 ? unit.only.front() : unit.only.front() + " ...";
}

std::string milliseconds(const Timing& timing) {
  return fmt::format("{:.3f}", 1e3 * timing.median);
}

double largest_spread(const MeasuredMode& mode) {
  double share = 0;
  // What takes microseconds varies by its own length, and matters to nobody.
  const double most =
      std::max({mode.forward.median, mode.backward_input.median, mode.backward_weight.median});
  for (const Timing* timing : {&mode.forward, &mode.recompute, &mode.backward_input, &mode.backward_weight}) {
    if (timing->median > 0.1 * most) share = std::max(share, timing->spread / timing->median);
  }
  return share;
}

std::string rate(double bytes_per_second) {
  return fmt::format("{:.3f} GB/s", bytes_per_second / 1e9);
}

std::string link_line(const MeasuredLink& link) {
  return fmt::format("  rank {} to {}: {:.1f} us, {} with traffic both ways, {} alone\n", link.from, link.to,
                     1e6 * link.latency, link.bandwidth ? rate(*link.bandwidth) : "unlimited",
                     rate(link.bandwidth_alone));
}

}  // namespace

std::string profile_table(const planner::Profile& profile, int64_t micro_batch) {
  std::string text = fmt::format("{}, {} thread{} a rank, {}; micro-batch {}\n", profile.device,
                                 profile.threads, profile.threads == 1 ? "" : "s", profile.compute,
                                 nearest(profile.units.front(), micro_batch).micro_batch);
  if (profile.oversubscribed()) {
    text += fmt::format(
        "warning: measured with {:.3g} compute threads a processor: times, and links above all, are of an "
        "oversubscribed machine\n",
        profile.threads_per_processor);
  }
  text += fmt::format("{:<16} {:<10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>12} {:>12}\n", "unit", "recompute",
                      "F ms", "R ms", "I ms", "W ms", "spread", "slot KiB", "optimizer ms");
  for (const MeasuredUnit& unit : profile.units) {
    for (const MeasuredMode& mode : nearest(unit, micro_batch).modes) {
      const bool first = &mode == &nearest(unit, micro_batch).modes.front();
      if (!first && mode.recompute.median == 0) continue;  // embedding and head: the same in every mode
      const int64_t slot = mode.forward_bytes + mode.kept_bytes + mode.weight_bytes;
      text += fmt::format("{:<16} {:<10} {:>10} {:>10} {:>10} {:>10} {:>6.0f} % {:>12} {:>12}\n",
                          first ? label(unit) : "", planner::to_string(mode.mode), milliseconds(mode.forward),
                          milliseconds(mode.recompute), milliseconds(mode.backward_input),
                          milliseconds(mode.backward_weight), 100 * largest_spread(mode),
                          (slot + 1023) / 1024, first ? milliseconds(unit.optimizer_step) : "");
    }
  }
  for (size_t rank = 0; rank < profile.pace.size(); ++rank) {
    if (profile.pace[rank] != 1)
      text += fmt::format("rank {} takes {:.2f} times as long\n", rank, profile.pace[rank]);
  }
  if (!profile.links.empty()) text += "links\n";
  for (const MeasuredLink& link : profile.links) text += link_line(link);
  if (profile.reduction) {
    text += fmt::format("gradients over replicas: {:.1f} us, {}\n", 1e6 * profile.reduction->latency,
                        rate(profile.reduction->bandwidth.value_or(0)));
  }
  if (!profile.links.empty() || profile.reduction)
    text += fmt::format("compute under traffic takes {:.1f} % longer\n", 100 * profile.traffic_slowdown);
  return text;
}

}  // namespace penstock::commands
