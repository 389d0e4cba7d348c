// Unit costs that follow a run's steps: what they add up to is what the stages took.
#include "trainer/run_costs.h"

#include <vector>

#include <gtest/gtest.h>

#include "parallel/schedule/simulate.h"
#include "tests/trainer/small_job.h"

namespace penstock {
namespace {

using accounting::RankTimes;

// Four stages on two ranks, costs by formula at first.
struct MeasuredPipeline {
  MeasuredPipeline() : plan(runtime::plan_pipeline(pipeline_request(job))) {
    costs.blocks = {{1, 2, 3}, {2, 1, 1}, {3, 3, 1}, {1, 4, 2}};
  }

  std::vector<RankTimes> step() const {
    const schedule::Timeline timeline = simulate(plan.training, costs);
    std::vector<RankTimes> ranks;
    for (size_t rank = 0; rank < plan.training.ranks.size(); ++rank) {
      RankTimes& times = ranks.emplace_back(accounting::times_of(timeline, rank));
      const auto& list = plan.training.ranks[rank].instructions;
      for (size_t at = 0; at < list.size(); ++at) {
        if (list[at].kind == schedule::InstructionKind::compute &&
            list[at].action.op == schedule::Op::backward) {
          times.instructions[at].middle =
              times.instructions[at].start +
              costs.blocks[static_cast<size_t>(list[at].action.stage)].backward_input;
        }
      }
    }
    return ranks;
  }

  Job job = testing::small_job("nowhere", {"parallel.pipeline=2", "parallel.chunks=2",
                                           "parallel.schedule=interleaved", "parallel.partition=[2,1,1,2]"});
  Backend backend = make_backend(job, 0);
  runtime::PipelinePlan plan;
  schedule::Costs costs;
};

void expect_blocks(const schedule::Costs& found, const schedule::Costs& expected) {
  ASSERT_EQ(found.blocks.size(), expected.blocks.size());
  for (size_t stage = 0; stage < found.blocks.size(); ++stage) {
    EXPECT_NEAR(found.blocks[stage].forward, expected.blocks[stage].forward, 1e-9) << stage;
    EXPECT_NEAR(found.blocks[stage].backward_input, expected.blocks[stage].backward_input, 1e-9) << stage;
    EXPECT_NEAR(found.blocks[stage].backward_weight, expected.blocks[stage].backward_weight, 1e-9) << stage;
  }
}

TEST(RunCosts, AreWhatTheStagesTookAfterOneStep) {
  MeasuredPipeline run;
  RunCosts costs(run.plan, run.job, costs_by_formula(run.job, run.backend, std::nullopt, "none"));
  EXPECT_EQ(costs.steps(), 0);
  EXPECT_EQ(costs.difference().all, 0);
  costs.add(run.step());
  EXPECT_EQ(costs.steps(), 1);
  expect_blocks(costs.costs(), run.costs);
  // Seconds against a formula's microseconds.
  EXPECT_GT(costs.difference().all, 100);
}

TEST(RunCosts, FollowAStageThatBecomesSlower) {
  MeasuredPipeline run;
  RunCosts costs(run.plan, run.job, costs_by_formula(run.job, run.backend, std::nullopt, "none"));
  costs.add(run.step());
  run.costs.blocks[2] = {4.5, 4.5, 1.5};
  for (int step = 0; step < 300; ++step) costs.add(run.step());
  expect_blocks(costs.costs(), run.costs);
}

TEST(RunCosts, RecomputationIsItsOwnPartOfI) {
  MeasuredPipeline run;
  run.job = testing::small_job("nowhere", {"parallel.pipeline=2", "parallel.chunks=2", "recompute.mode=full",
                                           "parallel.schedule=interleaved", "parallel.partition=[2,1,1,2]"});
  run.plan = runtime::plan_pipeline(pipeline_request(run.job));
  RunCosts costs(run.plan, run.job, costs_by_formula(run.job, run.backend, std::nullopt, "none"));
  std::vector<RankTimes> step = run.step();
  for (RankTimes& rank : step) rank.recompute = {0.5, 0.5};
  costs.add(step);
  expect_blocks(costs.costs(), run.costs);  // R runs inside I
}

}  // namespace
}  // namespace penstock
