#include "trainer/accounting/step_account.h"

#include <algorithm>
#include <cmath>

namespace penstock::accounting {

const Culprit* RankAccount::root() const {
  const auto largest = std::max_element(
      roots.begin(), roots.end(), [](const Culprit& a, const Culprit& b) { return a.seconds < b.seconds; });
  return largest == roots.end() ? nullptr : &*largest;
}

StepFigures figures_of(const StepAccount& account, const std::vector<std::vector<int>>& stages_by_rank) {
  StepFigures figures;
  const auto ranks = static_cast<double>(account.ranks.size());
  PartSeconds mean;
  double longest = 0;
  double inside = 0;  // what is neither busy nor bubble inside the ranks' own spans
  double unexplained = 0;
  double most = -1;
  for (size_t r = 0; r < account.ranks.size(); ++r) {
    const RankAccount& rank = account.ranks[r];
    for (size_t at = 0; at < part_count; ++at) {
      const auto part = static_cast<Part>(at);
      mean[part] += rank.parts[part] / ranks;
    }
    const double span = rank.last_end - rank.first_start;
    longest = std::max(longest, span);
    const PartSeconds& parts = rank.parts;
    unexplained += std::abs(parts[Part::unexplained]) / ranks;
    inside += (span - parts.busy() - parts[Part::wait_forward] - parts[Part::wait_backward] -
               parts[Part::transfer] - parts[Part::buffer]) /
              ranks;
    figures.fill = std::max(figures.fill, parts[Part::fill]);
    figures.drain = std::max(figures.drain, parts[Part::drain]);
    if (parts.busy() > most) {
      most = parts.busy();
      figures.slowest_rank = static_cast<int>(r);
    }
  }
  figures.micro_batch_latency = account.micro_batch_latency;
  const double step = account.seconds();
  const double work = step - mean.pauses();
  // A step that takes no time has no bubble.
  if (work > 0) figures.bubble_ratio = mean.bubble() / work;
  if (step > 0) figures.idle_ratio = mean.idle() / step;
  if (step > 0) figures.unexplained_ratio = unexplained / step;
  if (longest > 0) figures.bubble_ratio_rank_span = 1 - (mean.busy() + inside) / longest;
  if (mean.busy() > 0) figures.stage_imbalance = most / mean.busy() - 1;
  double slowest = -1;
  for (const int stage : stages_by_rank[static_cast<size_t>(figures.slowest_rank)]) {
    const double busy = account.stage_busy[static_cast<size_t>(stage)];
    if (busy <= slowest) continue;
    slowest = busy;
    figures.slowest_stage = stage;
  }
  return figures;
}

StepFigures figures_of(std::span<const StepAccount> replicas,
                       const std::vector<std::vector<int>>& stages_by_rank) {
  StepFigures all;
  all.stage_imbalance = -1;
  const auto count = static_cast<double>(replicas.size());
  for (const StepAccount& replica : replicas) {
    const StepFigures one = figures_of(replica, stages_by_rank);
    all.bubble_ratio += one.bubble_ratio / count;
    all.bubble_ratio_rank_span += one.bubble_ratio_rank_span / count;
    all.idle_ratio += one.idle_ratio / count;
    all.unexplained_ratio += one.unexplained_ratio / count;
    all.micro_batch_latency += one.micro_batch_latency / count;
    all.fill = std::max(all.fill, one.fill);
    all.drain = std::max(all.drain, one.drain);
    if (one.stage_imbalance <= all.stage_imbalance) continue;
    all.stage_imbalance = one.stage_imbalance;
    all.slowest_stage = one.slowest_stage;
    all.slowest_rank = one.slowest_rank;
  }
  return all;
}

}  // namespace penstock::accounting
