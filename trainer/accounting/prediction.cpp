#include "trainer/accounting/prediction.h"

#include <array>
#include <optional>
#include <vector>

#include "parallel/schedule/simulate.h"
#include "trainer/accounting/accountant.h"

namespace penstock::accounting {

namespace {

using schedule::InstructionKind;
using schedule::Op;
using schedule::RollingProgram;

// Where a B turns from I to W.
void split_backward(const schedule::Instruction& at, const schedule::Costs& costs, InstructionTimes& times) {
  if (at.kind != InstructionKind::compute || at.action.op != Op::backward) return;
  const schedule::StageCosts& stage = costs.of_stage(at.action.stage);
  const double both = stage.backward_input + stage.backward_weight;
  if (both > 0) times.middle = times.start + (times.end - times.start) * stage.backward_input / both;
}

// What each rank would record of each step of the window. What counts as gathered is what a step's first
// forward waits for: it stands behind the update of the step before the last.
std::array<std::vector<RankTimes>, RollingProgram::steps> records_of(const schedule::Program& step,
                                                                     const RollingProgram& rolling,
                                                                     const schedule::Costs& costs) {
  const schedule::Timeline timeline = simulate(rolling.window, costs);
  const auto places = places_in_step(rolling, step);
  std::array<std::vector<RankTimes>, RollingProgram::steps> records;
  for (std::vector<RankTimes>& ranks : records) {
    for (const schedule::RankProgram& rank : step.ranks)
      ranks.emplace_back().instructions.resize(rank.instructions.size());
  }
  for (size_t rank = 0; rank < step.ranks.size(); ++rank) {
    const auto& list = rolling.window.ranks[rank].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      const schedule::Span& span = timeline.spans[rank][i];
      InstructionTimes times{0, span.start, 0, span.end};
      split_backward(list[i], costs, times);
      const bool gathers = list[i].kind == InstructionKind::gather_parameters;
      const auto at = static_cast<size_t>(list[i].step + (gathers ? 2 : 0));
      if (at < records.size()) records[at][rank].instructions[places[rank][i]] = times;
      if (list[i].kind == InstructionKind::optimizer_step && at + 1 < records.size())
        records[at + 1][rank].optimizer_before = times;
    }
  }
  return records;
}

}  // namespace

Prediction predict(const schedule::Program& program, const schedule::Costs& costs) {
  const schedule::Timeline timeline = simulate(program, costs);
  std::vector<RankTimes> ranks;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    RankTimes& times = ranks.emplace_back(times_of(timeline, rank));
    const auto& list = program.ranks[rank].instructions;
    for (size_t at = 0; at < list.size(); ++at) split_backward(list[at], costs, times.instructions[at]);
  }
  Accountant accountant(program);
  Prediction prediction;
  prediction.account = accountant.account(ranks, std::nullopt);
  prediction.figures = figures_of(prediction.account, accountant.stages_by_rank());
  return prediction;
}

Prediction predict(const schedule::Program& step, const RollingProgram& rolling,
                   const schedule::Costs& costs) {
  constexpr int settled = RollingProgram::steps - 2;  // fill is over, and drain has not begun
  const auto records = records_of(step, rolling, costs);
  Accountant accountant(step, rolling);
  Prediction prediction;
  for (int at = 0; at <= settled; ++at) {
    prediction.account =
        accountant.account_overlapping(records[static_cast<size_t>(at)], std::nullopt, at > 0, false);
  }
  prediction.figures = figures_of(prediction.account, accountant.stages_by_rank());
  return prediction;
}

}  // namespace penstock::accounting
