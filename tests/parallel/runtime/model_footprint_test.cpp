#include "parallel/runtime/model_footprint.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "model/flops.h"
#include "model/memory_plan.h"
#include "model/unit_id.h"
#include "parallel/planner/rank_memory.h"
#include "parallel/planner/unit_sums.h"
#include "parallel/runtime/formula_costs.h"
#include "parallel/runtime/pipeline_plan.h"
#include "parallel/schedule/catalogue.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::runtime {
namespace {

using planner::ModelCosts;
using planner::Recompute;
using planner::UnitCosts;

struct ModelFootprint : ::testing::Test {
  std::unique_ptr<Device> device = cpu::make_cpu_device({});
  math::Math math = cpu::make_math(*device);
  std::mt19937 random{7};

  int choose(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

  // Any model, schedule, partition, and recompute modes.
  PipelineRequest random_request() {
    ModelSection section = choose(0, 1) == 0 ? testing::tiny_gpt2() : testing::tiny_llama();
    section.tie_embeddings = choose(0, 1) == 1;
    section.dropout = choose(0, 1) == 0 ? 0 : 0.1;
    section.layers = choose(2, 5);
    struct Named {
      const char* name;
      int chunks;
    };
    const std::vector<Named> schedules{{"1f1b", 1},        {"gpipe", 1}, {"zb-h1", 1},    {"zbv", 2},
                                       {"interleaved", 2}, {"2bw", 1},   {"dualpipe", 1}, {"chimera", 1}};
    const size_t drawn = static_cast<size_t>(choose(0, 7));
    const Named schedule = schedules[drawn];
    const int pipeline = drawn < 6 ? choose(2, 3) : 2;
    testing::Job job = testing::make_job(section, pipeline, schedule.name, schedule.chunks, 6);
    PipelineRequest request = job.request;
    request.common.micro_batch = choose(1, 3);
    request.common.document_mask = choose(0, 1) == 1;
    request.common.weight_versions = request.common.gradient_sets = schedule::versions_of(schedule.name);
    constexpr std::array dtypes{DType::fp32, DType::bf16, DType::fp16};
    request.common.compute = dtypes[static_cast<size_t>(choose(0, 2))];
    if (choose(0, 1) == 1) request.common.wire = dtypes[static_cast<size_t>(choose(0, 2))];
    const int stages = pipeline * schedule.chunks;
    std::vector<int64_t> units(static_cast<size_t>(stages), 1);
    for (int left = model::unit_count(section) - stages; left > 0; --left)
      ++units[static_cast<size_t>(choose(0, stages - 1))];
    request.parallel.partition = PartitionMethod::units;
    request.parallel.partition_units = units;
    for (int stage = 0; stage < stages; ++stage)
      request.recompute.stages.push_back(recompute_mode(static_cast<Recompute>(choose(0, 2))));
    return request;
  }
};

// What the planner says a rank holds.
int64_t bytes_by_costs(const ModelCosts& costs, const PipelinePlan& plan, int rank) {
  planner::Layout layout;
  layout.units = plan.units;
  layout.recompute.resize(plan.units.size());
  for (const model::RankConfig& config : plan.ranks) {
    for (const model::StageConfig& stage : config.stages) {
      int at = 0;
      while (plan.first_unit(at) != stage.begin) ++at;
      layout.recompute[static_cast<size_t>(at)] = planned_mode(stage.recompute[0]);
    }
  }
  const auto r = static_cast<size_t>(rank);
  planner::BoundaryBuffers buffers = plan.training.ranks[r].buffers;
  for (size_t pool = 0; pool < buffers.size(); ++pool) {
    buffers[pool] = std::max(buffers[pool], plan.evaluation.ranks[r].buffers[pool]);
    if (plan.rolling) buffers[pool] = std::max(buffers[pool], plan.rolling->window.ranks[r].buffers[pool]);
  }
  const schedule::Schedule& schedule = plan.training.schedule;
  return rank_memory(planner::UnitSums(costs), schedule, layout, planner::slot_counts(schedule), buffers,
                     rank)
      .total();
}

TEST_F(ModelFootprint, AddsUpToTheMemoryPlan) {
  for (int round = 0; round < 150; ++round) {
    const PipelineRequest request = random_request();
    const PipelinePlan plan = plan_pipeline(request);
    const ModelCosts costs = model_footprint(request.common, math, plan.reduction);
    for (int rank = 0; rank < plan.topology.pipeline(); ++rank) {
      const model::RankConfig& config = plan.ranks[static_cast<size_t>(rank)];
      const model::MemoryPlan memory = plan_memory(config, make_call_sites(math, config));
      bool attention = false;
      for (int unit = 0; unit < model::unit_count(config.model); ++unit)
        attention = attention || (has_unit(config, unit) &&
                                  model::unit_at(config.model, unit).kind == model::UnitKind::attention);
      const int64_t table =
          config.model.family == Family::llama && !attention
              ? static_cast<int64_t>(
                    aligned(static_cast<size_t>(4 * config.model.sequence_length * config.model.head_dim)))
              : 0;
      ASSERT_EQ(static_cast<int64_t>(memory.bytes()), bytes_by_costs(costs, plan, rank) - table)
          << "round " << round << ", rank " << rank << "\n"
          << memory.table();
    }
  }
}

TEST_F(ModelFootprint, CoversTheReductionOfReplicas) {
  testing::Job job = testing::make_job(testing::tiny_gpt2(), 2, "1f1b", 1, 4, 2);
  const PipelinePlan plan = plan_pipeline(job.request);
  const ModelCosts costs = model_footprint(job.request.common, math, plan.reduction);
  const ModelCosts alone = model_footprint(job.request.common, math, {});
  EXPECT_GT(costs.rank_bytes, alone.rank_bytes);
  bool exact = false;
  for (int rank = 0; rank < 2; ++rank) {
    const model::RankConfig& config = plan.ranks[static_cast<size_t>(rank)];
    const auto planned = static_cast<int64_t>(plan_memory(config, make_call_sites(math, config)).bytes());
    EXPECT_LE(planned, bytes_by_costs(costs, plan, rank));
    exact = exact || planned == bytes_by_costs(costs, plan, rank);
  }
  EXPECT_TRUE(exact);  // on the rank with the largest unit
}

TEST_F(ModelFootprint, AddsUpToTheMemoryPlanOfAShardedOptimizer) {
  for (int round = 0; round < 60; ++round) {
    PipelineRequest request = random_request();
    request.parallel.data = choose(2, 4);
    request.parallel.sharded_optimizer = true;
    const PipelinePlan plan = plan_pipeline(request);
    ASSERT_GT(plan.reduction.shards(), 1);
    const ModelCosts costs = model_footprint(request.common, math, plan.reduction);
    // But for the buckets, which are as large as the largest unit's, and the rotary table: as above.
    model::RankConfig whole = request.common;
    whole.stages = {model::whole_model(whole.model, RecomputeMode::none)};
    const auto bytes_of = [](const std::vector<model::PlannedAllocation>& memory) {
      int64_t bytes = 0;
      for (const model::PlannedAllocation& piece : memory) bytes += static_cast<int64_t>(piece.bytes);
      return bytes;
    };
    for (int rank = 0; rank < plan.topology.pipeline(); ++rank) {
      const model::RankConfig& config = plan.ranks[static_cast<size_t>(rank)];
      const model::CallSites sites = make_call_sites(math, config);
      const int64_t planned = static_cast<int64_t>(plan_memory(config, sites).bytes());
      int64_t beyond = bytes_of(reduction_memory(whole, plan.reduction)) -
                       bytes_of(reduction_memory(config, plan.reduction));
      if (config.model.family == Family::llama && !sites.attention)
        beyond += static_cast<int64_t>(
            aligned(static_cast<size_t>(4 * config.model.sequence_length * config.model.head_dim)));
      ASSERT_EQ(planned, bytes_by_costs(costs, plan, rank) - beyond)
          << "round " << round << ", rank " << rank;
    }
  }
}

TEST_F(ModelFootprint, CountsWhatCutsBalance) {
  const model::RankConfig common = testing::make_job(testing::tiny_gpt2(), 1, "1f1b").request.common;
  const ModelCosts costs = model_footprint(common, math, {});
  ASSERT_EQ(costs.units.size(), 10U);
  EXPECT_EQ(costs.units[0].name, "embedding");
  EXPECT_EQ(costs.units[7].name, "attention_3");
  EXPECT_EQ(costs.units[9].name, "head");
  EXPECT_EQ(costs.units[2].parameters, 2 * 16 * 40 + 40 + 16 + 2 * 16);
  EXPECT_EQ(costs.units[2].flops, static_cast<double>(costs.tokens) * 2 * 2 * 16 * 40);
  EXPECT_EQ(costs.units[2].layers, 1);
  EXPECT_EQ(costs.units[9].layers, 0);
  EXPECT_EQ(costs.units[9].parameters, 2 * 16);  // the head's matrix is the embedding's
}

TEST_F(ModelFootprint, FormulaCountsTheModelsFlops) {
  for (ModelSection section : {testing::tiny_gpt2(), testing::tiny_llama()}) {
    section.vocab_size = section.padded_vocab_size();
    const model::RankConfig common = testing::make_job(section, 1, "1f1b").request.common;
    const DeviceRates rates{1, 1e300};  // an operation a second, and memory that takes no time
    const ModelCosts costs = formula_costs(common, rates, model_footprint(common, math, {}));
    double flops = 0;
    for (const UnitCosts& unit : costs.units) {
      const planner::ModeCosts& mode = unit.in(Recompute::none);
      flops += mode.forward + mode.backward_input + mode.backward_weight;
      EXPECT_EQ(mode.recompute, 0);
    }
    // The backward pass computes the scores of attention once more.
    const auto scores = static_cast<double>(section.layers * section.heads * section.head_dim *
                                            (section.sequence_length + 1));
    const double expected =
        static_cast<double>(costs.tokens) * (model::training_flops_per_token(section) + scores);
    EXPECT_NEAR(flops / expected, 1, 1e-12);
  }
}

TEST_F(ModelFootprint, FormulaOrdersTheModes) {
  for (const ModelSection& section : {testing::tiny_gpt2(), testing::tiny_llama()}) {
    const model::RankConfig common = testing::make_job(section, 1, "1f1b").request.common;
    const ModelCosts costs =
        formula_costs(common, nominal_cpu_rates(DType::fp32, 1), model_footprint(common, math, {}));
    for (const UnitCosts& unit : costs.units) {
      const planner::ModeCosts& none = unit.in(Recompute::none);
      const planner::ModeCosts& selective = unit.in(Recompute::selective);
      const planner::ModeCosts& full = unit.in(Recompute::full);
      EXPECT_GT(none.backward_input, 0) << unit.name;
      EXPECT_GT(unit.optimizer_step, 0) << unit.name;
      EXPECT_EQ(none.recompute, 0) << unit.name;
      const bool layer = unit.layers > 0;
      if (layer) {
        EXPECT_LT(0, selective.recompute) << unit.name;
        EXPECT_LT(selective.recompute, full.recompute) << unit.name;
        EXPECT_LT(full.recompute, none.forward) << unit.name;
        EXPECT_GT(none.backward_weight, 0) << unit.name;
      } else {
        EXPECT_EQ(full.recompute, 0) << unit.name;
        EXPECT_EQ(none.backward_weight, 0) << unit.name;
      }
    }
    // The head's pass is in its backward action.
    EXPECT_EQ(costs.units.back().in(Recompute::none).forward, 0);
    EXPECT_NE(costs.source.find("formula"), std::string::npos);
    model::RankConfig twice = common;
    twice.micro_batch *= 2;
    const ModelCosts larger =
        formula_costs(twice, nominal_cpu_rates(DType::fp32, 1), model_footprint(twice, math, {}));
    EXPECT_NEAR(larger.units[1].in(Recompute::full).backward_input,
                2 * costs.units[1].in(Recompute::full).backward_input, 1e-15);
  }
}

}  // namespace
}  // namespace penstock::runtime
