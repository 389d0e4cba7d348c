#include "trainer/accounting/prediction.h"

#include <optional>

#include "parallel/schedule/simulate.h"
#include "trainer/accounting/accountant.h"

namespace penstock::accounting {

Prediction predict(const schedule::Program& program, const schedule::Costs& costs) {
  const schedule::Timeline timeline = simulate(program, costs);
  std::vector<RankTimes> ranks;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    RankTimes& times = ranks.emplace_back(times_of(timeline, rank));
    const auto& list = program.ranks[rank].instructions;
    for (size_t at = 0; at < list.size(); ++at) {
      if (list[at].kind != schedule::InstructionKind::compute ||
          list[at].action.op != schedule::Op::backward) {
        continue;
      }
      const schedule::StageCosts& stage = costs.of_stage(list[at].action.stage);
      const double both = stage.backward_input + stage.backward_weight;
      InstructionTimes& each = times.instructions[at];
      if (both > 0) each.middle = each.start + (each.end - each.start) * stage.backward_input / both;
    }
  }
  Accountant accountant(program);
  Prediction prediction;
  prediction.account = accountant.account(ranks, std::nullopt);
  prediction.figures = figures_of(prediction.account, accountant.stages_by_rank());
  return prediction;
}

}  // namespace penstock::accounting
