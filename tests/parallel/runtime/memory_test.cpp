// What a rank uses is what was planned for it, in every arena, and the plan holds nothing that no micro-batch
// needs: activations are poisoned, and after a step every slot and every boundary buffer was written.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/memory_plan.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

Job job_of(const OneCopySchedule& kind, int pipeline, int micro_batches, int replicas = 1) {
  return make_job(tiny_gpt2(), pipeline, kind, micro_batches, replicas);
}

constexpr int poison = 0xA5;

// A rank's arenas, their pieces by name.
class Account {
 public:
  explicit Account(runtime::PipelineEngine& engine)
      : engine_(engine), device_(engine.rank().memory().device()) {}

  // Every arena has what was planned, all of it was claimed, and nothing else was taken.
  void expect_planned() const {
    const model::MemoryPlan& plan = engine_.rank().memory().plan();
    EXPECT_EQ(engine_.rank().memory().unclaimed(), std::vector<std::string>{});
    for (int index = 0; index < arena_tag_count; ++index) {
      const auto tag = static_cast<ArenaTag>(index);
      ASSERT_EQ(device_.has_arena(tag), plan.bytes(tag) > 0) << name_of(tag);
      if (!device_.has_arena(tag)) continue;
      EXPECT_EQ(device_.arena(tag).used(), plan.bytes(tag)) << name_of(tag);
      EXPECT_EQ(device_.arena(tag).capacity(), plan.bytes(tag)) << name_of(tag);
    }
  }

  // The parts of activations and boundary buffers that come once a slot, and once a buffer.
  struct Part {
    std::string name;
    char* memory;
    size_t bytes;
  };
  std::vector<Part> parts() const {
    std::vector<Part> all;
    // The rank's stages share them.
    std::vector<Tensor> outputs;
    std::vector<Tensor> d_inputs;
    model::RankModel& rank = engine_.rank();
    const model::RankConfig& config = rank.config();
    for (size_t index = 0; index < rank.stages(); ++index) {
      const model::StageConfig& stage = config.stages[index];
      const model::SideBand band = rank.stage(index).side_band_of({});
      const char* first = nullptr;
      for (const Tensor& each : {band.tokens, band.targets, band.positions, band.starts, band.samples}) {
        const auto* begin = static_cast<const char*>(each.data);
        if (each && (first == nullptr || begin < first)) first = begin;
      }
      const std::string name = model::stage_piece(index, "side_band");
      char* base = const_cast<char*>(first) - piece(ArenaTag::activations, name)->offset;
      add(all, ArenaTag::activations, base, name, stage.forward_slots);
      for (int unit = stage.begin; unit < stage.end; ++unit) {
        const auto pool = [&](std::string_view slots, int count) {
          add(all, ArenaTag::activations, base, model::unit_piece(config.model, unit, slots), count);
        };
        pool("forward", stage.forward_slots);
        pool("kept", stage.kept_slots);
        pool("weight", stage.weight_slots);
      }
      if (outputs.empty() && !rank.stage(index).has_head()) {
        for (int i = 0; i < config.output_buffers; ++i) outputs.push_back(rank.stage(index).output(i));
      }
      if (d_inputs.empty() && !rank.stage(index).has_embedding()) {
        for (int i = 0; i < config.d_input_buffers; ++i) d_inputs.push_back(rank.stage(index).d_input(i));
      }
    }
    for (const auto* buffers : {&outputs, &d_inputs}) {
      for (const Tensor& each : *buffers)
        all.push_back(
            {buffers == &outputs ? "output" : "d_input", static_cast<char*>(each.data), each.bytes()});
    }
    return all;
  }

 private:
  const Allocation* piece(ArenaTag tag, const std::string& name) const {
    for (const Allocation& each : device_.arena(tag).allocations()) {
      if (each.name == name) return &each;
    }
    return nullptr;
  }

  void add(std::vector<Part>& all, ArenaTag tag, char* base, const std::string& name, int count) const {
    const Allocation* at = piece(tag, name);
    if (at == nullptr) return;  // the unit keeps nothing of that kind
    const size_t bytes = at->bytes / static_cast<size_t>(count);
    for (int i = 0; i < count; ++i) {
      all.push_back(
          {fmt::format("{}[{}]", name, i), base + at->offset + static_cast<size_t>(i) * bytes, bytes});
    }
  }

  runtime::PipelineEngine& engine_;
  Device& device_;
};

void step(const Job& job, runtime::PipelineEngine& engine) {
  std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
  const std::vector<model::SideBand> bands = bands_of(batches);
  engine.start_step({0, 1e-2, 100}, bands);
  engine.finish_step();
  engine.evaluate(bands);
}

TEST(Memory, IsWhatWasPlannedAndNoMoreThanNeeded) {
  int ran = 0;
  std::vector<OneCopySchedule> kinds = one_copy_schedules();
  for (const std::string& name : two_copy_schedules()) kinds.push_back({name});
  for (const OneCopySchedule& kind : kinds) {
    for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full}) {
      for (const int pipeline : {2, 4}) {
        SCOPED_TRACE(fmt::format("{}, P = {}, recompute {}", kind.name, pipeline, static_cast<int>(mode)));
        Job job = job_of(kind, pipeline, 2 * pipeline);
        job.request.recompute.mode = mode;
        run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
          const Account account(engine);
          const auto parts = account.parts();
          for (const Account::Part& part : parts) std::memset(part.memory, poison, part.bytes);
          step(job, engine);
          account.expect_planned();
          for (const Account::Part& part : parts) {
            const bool written = std::any_of(part.memory, part.memory + part.bytes,
                                             [](char byte) { return byte != static_cast<char>(poison); });
            EXPECT_TRUE(written) << part.name << " of rank " << world.rank() << " was never needed";
          }
        });
        ++ran;
      }
    }
  }
  EXPECT_EQ(ran, 84);
}

TEST(Memory, OfReplicasIsWhatWasPlanned) {
  for (const DType wire : {DType::fp32, DType::bf16}) {
    for (const GradientSum sum : {GradientSum::ordered, GradientSum::library}) {
      for (const auto& [every, sharded] : {std::pair(0, false), {2, false}, {0, true}, {2, true}}) {
        Job job = job_of({"zb-h1"}, 2, 5, 2);
        job.request.parallel.sharded_optimizer = sharded;
        job.request.gradient_wire = wire;
        job.request.parallel.gradient_sum = sum;
        job.request.parallel.reduce_every = every;
        run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
          step(job, engine);
          Account(engine).expect_planned();
        });
        if (every > 0) continue;
        job.request.parallel.schedule = "2bw";
        run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
          step(job, engine);
          Account(engine).expect_planned();
        });
      }
    }
  }
}

// Bytes of activations and boundary buffers of each rank, in a run.
std::vector<size_t> activations(const Job& job) {
  std::vector<size_t> bytes(static_cast<size_t>(job.request.parallel.pipeline));
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
    step(job, engine);
    const model::MemoryPlan& plan = engine.rank().memory().plan();
    size_t sum = engine.rank().memory().device().arena(ArenaTag::activations).used();
    for (const model::PlannedAllocation& piece : plan.allocations) {
      if (piece.name.starts_with("boundary.")) sum += piece.bytes;
    }
    bytes[static_cast<size_t>(world.rank())] = sum;
  });
  return bytes;
}

TEST(Memory, OfOneForwardOneBackwardDoesNotGrowWithMicroBatches) {
  const std::vector<size_t> fewest = activations(job_of({"1f1b"}, 4, 4));
  EXPECT_EQ(activations(job_of({"1f1b"}, 4, 16)), fewest);
  EXPECT_EQ(activations(job_of({"1f1b"}, 4, 64)), fewest);
  EXPECT_LT(fewest, activations(job_of({"gpipe"}, 4, 16)));
}

TEST(Memory, OfDeferredWeightGradientsDoesNotGrowWithMicroBatches) {
  for (const OneCopySchedule& kind :
       {OneCopySchedule{"zb-h1"}, OneCopySchedule{"zb-h2"}, OneCopySchedule{"zbv", 2},
        OneCopySchedule{"v-half", 2}, OneCopySchedule{"v-min", 2}, OneCopySchedule{"dualpipev", 2}}) {
    SCOPED_TRACE(kind.name);
    const std::vector<size_t> some = activations(job_of(kind, 4, 16));
    EXPECT_EQ(activations(job_of(kind, 4, 64)), some);
  }
}

// The formulas of the schedules' definitions: activations held from F to W.
TEST(Memory, IsWhatTheSchedulesDefine) {
  constexpr int P = 4;
  constexpr int M = 12;
  const auto kept = [&](const OneCopySchedule& kind, int rank) {
    int slots = 0;
    const runtime::PipelinePlan plan = runtime::plan_pipeline(job_of(kind, P, M).request);
    for (const model::StageConfig& stage : plan.ranks[static_cast<size_t>(rank)].stages)
      slots += stage.kept_slots;
    return slots;
  };
  for (int rank = 0; rank < P; ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_EQ(kept({"gpipe"}, rank), M);
    EXPECT_EQ(kept({"1f1b"}, rank), P - rank);
    EXPECT_EQ(kept({"zb-h1"}, rank), P);
    EXPECT_EQ(kept({"zb-h2"}, rank), 2 * P - 1);
  }
}

}  // namespace
}  // namespace penstock::testing
