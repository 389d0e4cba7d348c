#include "parallel/runtime/topology.h"

#include <map>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/partition.h"
#include "parallel/runtime/slot_plan.h"
#include "parallel/schedule/catalogue.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::runtime {
namespace {

TEST(Topology, Orders) {
  const Topology near(3, 2, RankOrder::pipeline_first);
  EXPECT_EQ(near.pipeline_of(1), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(near.replicas_of(1), (std::vector<int>{1, 4}));
  const Topology far(3, 2, RankOrder::data_first);
  EXPECT_EQ(far.pipeline_of(1), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(far.replicas_of(1), (std::vector<int>{2, 3}));
  for (const Topology& topology : {near, far}) {
    for (int rank = 0; rank < topology.ranks(); ++rank)
      EXPECT_EQ(topology.world_rank(topology.place(rank)), rank);
  }
  EXPECT_THROW(Topology(0, 1, RankOrder::pipeline_first), UsageError);
}

TEST(Topology, Communicators) {
  const Topology topology(3, 2, RankOrder::data_first);
  transport::run_inproc(6, {}, [&](transport::World& world) {
    const Communicators made = make_communicators(world, topology, 1, {{0, 2}});
    const Place place = topology.place(world.rank());
    EXPECT_EQ(made.pipeline->members(), topology.pipeline_of(place.replica));
    EXPECT_EQ(made.pipeline->rank(), place.pipeline);
    EXPECT_EQ(made.replicas->members(), topology.replicas_of(place.pipeline));
    EXPECT_EQ(made.replicas->rank(), place.replica);
    EXPECT_EQ(made.all->size(), 6);
    ASSERT_EQ(made.tied != nullptr, place.pipeline != 1);
    if (made.tied) {
      EXPECT_EQ(made.tied->rank(), place.pipeline == 0 ? 0 : 1);
    }
  });
  transport::run_inproc(2, {}, [&](transport::World& world) {
    EXPECT_THROW(make_communicators(world, topology, 1, {{0, 2}}), UsageError);
  });
}

// Two copies of the weights: whoever holds the same blocks is in one group, replica by replica.
TEST(Topology, CommunicatorsOfTwoCopies) {
  const Topology topology(4, 2, RankOrder::pipeline_first);
  EXPECT_EQ(topology.copies_of(1), (std::vector<int>{1, 2, 5, 6}));
  transport::run_inproc(8, {}, [&](transport::World& world) {
    const Communicators made = make_communicators(world, topology, 2, {{0, 1}, {3, 2}});
    const Place place = topology.place(world.rank());
    const int lower = std::min(place.pipeline, 3 - place.pipeline);
    EXPECT_EQ(made.replicas->members(), topology.copies_of(lower));
    EXPECT_EQ(made.replicas->rank(), 2 * place.replica + (place.pipeline == lower ? 0 : 1));
    ASSERT_TRUE(made.tied);
    EXPECT_EQ(made.tied->rank(), place.pipeline % 3 == 0 ? 0 : 1);
    EXPECT_EQ(made.tied->members()[0], topology.world_rank({place.pipeline < 2 ? 0 : 3, place.replica}));
  });
}

TEST(Partition, CountsWhatTheMethodSays) {
  const ModelSection model = testing::tiny_gpt2();
  EXPECT_EQ(unit_costs(model, PartitionMethod::layers), (std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1, 1, 0}));
  const auto flops = unit_costs(model, PartitionMethod::flops);
  EXPECT_EQ(flops[0], 0);
  EXPECT_EQ(flops[1], 2 * (3 * 16 * 16 + 16 * 16) + 2 * 16 * 6);
  EXPECT_EQ(flops[2], 2 * 2 * 16 * 40);
  EXPECT_EQ(unit_costs(model, PartitionMethod::measured), flops);
  const auto parameters = unit_costs(model, PartitionMethod::parameters);
  EXPECT_EQ(parameters[2], 2 * 16 * 40 + 40 + 16 + 2 * 16);
  EXPECT_EQ(parameters[9], 2 * 16);  // the head's matrix is the embedding's
  EXPECT_EQ(partition(model, PartitionMethod::layers, {}, 4), (std::vector<int>{3, 2, 2, 3}));
  EXPECT_EQ(partition(model, PartitionMethod::units, {1, 9}, 2), (std::vector<int>{1, 9}));
}

// Known costs, where they are given: by the time of the mode that runs.
TEST(Partition, CutsByKnownCosts) {
  PipelineRequest request = testing::make_job(testing::tiny_gpt2(), 2, "1f1b").request;
  request.parallel.partition = PartitionMethod::measured;
  planner::ModelCosts costs;
  costs.units.resize(10);
  for (planner::UnitCosts& unit : costs.units) {
    for (planner::ModeCosts& mode : unit.modes) {
      mode.forward = 1;
      mode.backward_input = 1;
      mode.backward_weight = 1;
    }
  }
  costs.units[9].modes[0].backward_input = 10;
  for (size_t unit = 0; unit < 4; ++unit) costs.units[unit].modes[2].recompute = 9;
  EXPECT_EQ(unit_seconds(costs, planner::Recompute::none)[9], 12);
  EXPECT_EQ(unit_seconds(costs, planner::Recompute::full)[0], 12);
  request.costs = costs;
  EXPECT_EQ(plan_pipeline(request).units, (std::vector<int>{7, 3}));
  request.recompute.mode = RecomputeMode::full;
  EXPECT_EQ(plan_pipeline(request).units, (std::vector<int>{3, 7}));
  request.parallel.partition = PartitionMethod::layers;
  EXPECT_EQ(plan_pipeline(request).units, (std::vector<int>{5, 5}));
  request.costs->units.pop_back();
  EXPECT_THROW(plan_pipeline(request), UsageError);
}

// Every pool against its definition: no slot is taken twice, and as many as the schedule needs.
TEST(SlotPlan, NoSlotIsTakenTwice) {
  for (const auto& [schedule_name, chunks] :
       {std::pair("gpipe", 1), std::pair("1f1b", 1), std::pair("zb-h2", 1), std::pair("zbv", 2),
        std::pair("dualpipev", 2), std::pair("interleaved", 2)}) {
    const std::string name = schedule_name;
    schedule::ScheduleOptions options;
    options.ranks = 4;
    options.micro_batches = 12;
    options.chunks = chunks;
    const schedule::Schedule made = schedule::generate(name, options);
    const schedule::Program program =
        lower(made, schedule::uniform_costs(4, chunks, {}), schedule::LoweringOptions());
    for (int rank = 0; rank < 4; ++rank) {
      const SlotPlan plan = plan_slots(program, rank);
      using Key = std::tuple<int, char, int>;
      std::map<Key, int> holder;
      const auto take = [&](const Key& key, int micro_batch) {
        EXPECT_TRUE(holder.emplace(key, micro_batch).second) << name;
      };
      const auto give = [&](const Key& key, int micro_batch) {
        const auto at = holder.find(key);
        ASSERT_NE(at, holder.end()) << name;
        EXPECT_EQ(at->second, micro_batch) << name;
        holder.erase(at);
      };
      const auto& list = program.ranks[static_cast<size_t>(rank)].instructions;
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind != schedule::InstructionKind::compute) continue;
        const auto [op, stage, m, paired] = list[i].action;
        const model::SlotIds ids = plan.slots[i];
        const auto& counts = plan.counts[static_cast<size_t>(stage)];
        EXPECT_LT(ids.forward, counts.forward);
        EXPECT_LT(ids.kept, counts.kept);
        EXPECT_LT(ids.weight, counts.weight);
        if (op == schedule::Op::forward) {
          take({stage, 'f', ids.forward}, m);
          take({stage, 'k', ids.kept}, m);
        }
        if (gives_input_gradient(op)) {
          take({stage, 'w', ids.weight}, m);
          give({stage, 'f', ids.forward}, m);
        }
        if (gives_weight_gradient(op)) {
          give({stage, 'k', ids.kept}, m);
          give({stage, 'w', ids.weight}, m);
        }
      }
      EXPECT_TRUE(holder.empty()) << name;
      if (name == "1f1b") {
        EXPECT_EQ(plan.counts[static_cast<size_t>(rank)].kept, 4 - rank);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::runtime
