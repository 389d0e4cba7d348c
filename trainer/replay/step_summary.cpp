#include "trainer/replay/step_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

namespace penstock::replay {

using accounting::Part;

accounting::RankTimes rank_times(const RankStep& rank) {
  accounting::RankTimes made;
  made.instructions.resize(rank.stamps.size());
  accounting::take_stamps(rank.stamps, 0, made.instructions);
  const runtime::Stamp& before = rank.optimizer_before;
  made.optimizer_before = {before.enqueued, before.start, 0, before.end};
  const runtime::StepTimes& at = rank.times;
  made.host[0] = {Part::evaluation, at.begin, at.evaluated};
  made.host[1] = {Part::checkpoint, at.evaluated, at.checkpointed};
  made.host[2] = {Part::data, at.checkpointed, at.loaded};
  return made;
}

StepSummary ReplayAccount::add(uint64_t step, std::span<const RankStep> ranks) {
  double begin = std::numeric_limits<double>::infinity();
  times_.clear();
  for (const RankStep& rank : ranks) {
    begin = std::min(begin, rank.times.begin);
    times_.push_back(rank_times(rank));
  }
  const accounting::StepAccount& account =
      overlapping_ ? accountant_.account_overlapping(times_, begin, ranks[0].follows, ranks[0].drains)
                   : accountant_.account(times_, begin);
  StepSummary made;
  made.step = step;
  made.seconds = account.seconds();
  made.figures = accounting::figures_of(account, accountant_.stages_by_rank());
  std::map<int, double> roots;
  for (const accounting::RankAccount& rank : account.ranks) {
    for (size_t part = 0; part < accounting::part_count; ++part) {
      const auto each = static_cast<Part>(part);
      made.parts[each] += rank.parts[each] / static_cast<double>(account.ranks.size());
    }
    for (const accounting::Culprit& root : rank.roots) {
      if (root.to < 0) roots[root.rank] += root.seconds;
    }
  }
  for (const auto& [rank, seconds] : roots) {
    if (seconds <= made.root_seconds) continue;
    made.root_rank = rank;
    made.root_seconds = seconds;
  }
  return made;
}

std::string summary_head() {
  return fmt::format(
      "{:>7}{:>11}{:>8}{:>7}{:>8}{:>7}{:>8}{:>8}{:>9}{:>7}{:>8}{:>8}{:>7}{:>8}{:>7}{:>8}  {}\n", "step", "ms",
      "bubble", "idle", "uneven", "fill", "wait F", "wait I", "transfer", "drain", "reduce", "data", "host",
      "pauses", "else", "slowest", "waited for");
}

std::string summary_line(const StepSummary& at) {
  // Rounding may leave −1e−17.
  const auto percent = [](double share) { return std::abs(share) < 1e-9 ? 0.0 : 100 * share; };
  const auto part = [&](Part each) { return percent(at.seconds > 0 ? at.parts[each] / at.seconds : 0); };
  return fmt::format(
      "{:>7}{:>11.3f}{:>8.2f}{:>7.2f}{:>8.2f}{:>7.2f}{:>8.2f}{:>8.2f}{:>9.2f}{:>7.2f}{:>8.2f}{:>8.2f}{:>7.2f}"
      "{:>8.2f}{:>7.2f}{:>8}  {}\n",
      at.step, 1e3 * at.seconds, percent(at.figures.bubble_ratio), percent(at.figures.idle_ratio),
      percent(at.figures.stage_imbalance), part(Part::fill), part(Part::wait_forward),
      part(Part::wait_backward), part(Part::transfer), part(Part::drain), part(Part::reduction),
      part(Part::data), part(Part::host), part(Part::evaluation) + part(Part::checkpoint),
      part(Part::buffer) + part(Part::launch) + part(Part::unexplained),
      fmt::format("rank {}", at.figures.slowest_rank),
      at.root_rank < 0 ? std::string("nobody")
                       : fmt::format("rank {}, {:.1f} ms", at.root_rank, 1e3 * at.root_seconds));
}

std::string stamp_lines(uint64_t step, std::span<const RankStep> ranks) {
  std::string lines;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t i = 0; i < ranks[rank].stamps.size(); ++i) {
      const runtime::Stamp& stamp = ranks[rank].stamps[i];
      lines +=
          fmt::format("{},{},{},{},{},{:.9f},{:.9f},{:.9f}\n", step, rank, i, to_string(*stamp.instruction),
                      name_of(stamp.lane), stamp.enqueued, stamp.start, stamp.end);
    }
  }
  return lines;
}

}  // namespace penstock::replay
