#pragma once

#include <span>
#include <vector>

#include "trainer/accounting/parts.h"

namespace penstock::accounting {

/// Who was behind a wait. `to` < 0: rank `rank` was computing (or late by itself); otherwise the message from
/// `rank` to `to` was on its way.
struct Culprit {
  int rank = 0;
  int to = -1;
  double seconds = 0;
};

/// One rank's step. The parts add up to the step.
struct RankAccount {
  PartSeconds parts;
  double first_start = 0;  ///< of its actions
  double last_end = 0;
  std::vector<Culprit> peers;  ///< wait_forward + wait_backward by the peer that was waited for
  /// The same seconds by what that peer was waiting for itself, to the end; and seconds of fill, drain,
  /// buffers, agreements and pauses in which another rank was held up by itself (HoldUps).
  std::vector<Culprit> roots;
  std::vector<Culprit> links;  ///< transfer, by link

  /// The largest of `roots`; null: it waited for nobody.
  const Culprit* root() const;
};

/// One step of a pipeline.
struct StepAccount {
  double begin = 0;  ///< where the step before ended
  double end = 0;
  /// Rank whose action was the first. What is before it is accounted to every rank as that rank spent it.
  int first_rank = 0;
  double first_action = 0;
  double last_action = 0;
  std::vector<RankAccount> ranks;
  std::vector<double> stage_busy;  ///< F + I + W + R by stage
  double micro_batch_latency = 0;  ///< median, from the start of F to the end of I on the model's first stage
  double clock_error = 0;          ///< the ranks' largest
  double memory_peak = 0;          ///< the ranks' largest, bytes

  double seconds() const { return end - begin; }
};

/// The numbers of a step, as shares and in seconds; names as in metrics.jsonl.
struct StepFigures {
  double bubble_ratio = 0;            ///< mean bubble ÷ (step − evaluation and checkpoint)
  double bubble_ratio_rank_span = 0;  ///< without fill and drain, ÷ the longest of the ranks' own spans
  double idle_ratio = 0;              ///< mean idle ÷ step
  double stage_imbalance = 0;         ///< the busiest rank's busy time ÷ mean − 1
  int slowest_stage = 0;              ///< the busiest rank's busiest stage
  int slowest_rank = 0;
  double fill = 0;   ///< until the last rank began
  double drain = 0;  ///< from when the first rank had ended
  double micro_batch_latency = 0;
  double unexplained_ratio = 0;
};

/// `stages_by_rank`: schedule::Schedule::stages_by_rank().
StepFigures figures_of(const StepAccount& account, const std::vector<std::vector<int>>& stages_by_rank);
/// Of several replicas: means of the ratios, the longest times, and the worst imbalance with its stage.
StepFigures figures_of(std::span<const StepAccount> replicas,
                       const std::vector<std::vector<int>>& stages_by_rank);

}  // namespace penstock::accounting
