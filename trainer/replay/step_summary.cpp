#include "trainer/replay/step_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace penstock::replay {

StepSummary summarise(const schedule::Program& program, uint64_t step, std::span<const RankStep> ranks) {
  StepSummary made;
  made.step = step;
  double begin = std::numeric_limits<double>::infinity();
  double end = 0;
  double loaded = std::numeric_limits<double>::infinity();
  for (const RankStep& rank : ranks) {
    begin = std::min(begin, rank.times.begin);
    end = std::max(end, rank.times.end);
    loaded = std::min(loaded, rank.times.loaded);
  }
  made.seconds = end - begin;
  if (made.seconds <= 0) return made;
  made.measures = schedule::measure(program, timeline_of(ranks));
  const double share = 1 / (made.seconds * static_cast<double>(ranks.size()));
  for (size_t r = 0; r < ranks.size(); ++r) {
    const runtime::StepTimes& at = ranks[r].times;
    made.evaluation += share * (at.evaluated - at.begin);
    made.checkpoint += share * (at.checkpointed - at.evaluated);
    made.data += share * (at.loaded - at.checkpointed);
    const schedule::Idle& causes = made.measures.ranks[r].causes;
    // Data that comes later than that of others lies in the fill.
    made.idle.fill += share * (causes.fill - std::min(causes.fill, at.loaded - loaded));
    made.idle.wait += share * causes.wait;
    made.idle.transfer += share * causes.transfer;
    made.idle.buffer += share * causes.buffer;
    made.idle.drain += share * causes.drain;
    made.idle.reduction += share * causes.reduction;
  }
  return made;
}

std::string summary_head() {
  return fmt::format("{:>7}{:>12}{:>9}{:>11}{:>8}{:>8}{:>10}{:>13}{:>8}{:>11}{:>8}{:>12}\n", "step", "ms",
                     "bubble %", "rank-span", "fill", "wait", "transfer", "buffer,host", "drain", "reduction",
                     "data", "evaluation");
}

std::string summary_line(const StepSummary& at) {
  // Rounding may leave −1e−17.
  const auto percent = [](double share) { return std::abs(share) < 1e-9 ? 0.0 : 100 * share; };
  return fmt::format(
      "{:>7}{:>12.3f}{:>9.2f}{:>11.2f}{:>8.2f}{:>8.2f}{:>10.2f}{:>13.2f}{:>8.2f}{:>11.2f}{:>8.2f}{:>12.2f}\n",
      at.step, 1e3 * at.seconds, percent(at.measures.bubble_ratio),
      percent(at.measures.bubble_ratio_rank_span), percent(at.idle.fill), percent(at.idle.wait),
      percent(at.idle.transfer), percent(at.idle.buffer), percent(at.idle.drain), percent(at.idle.reduction),
      percent(at.data), percent(at.evaluation + at.checkpoint));
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
