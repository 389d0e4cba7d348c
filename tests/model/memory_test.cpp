// Contract C3: what a rank takes from its device is what the plan said, to the byte.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "kernels/device/error.h"
#include "model/memory_plan.h"
#include "model/planned_memory.h"
#include "model/slot.h"
#include "tests/model/pipeline.h"

namespace penstock::testing {
namespace {

using model::MemoryPlan;
using model::PlannedAllocation;

std::vector<PipelineOptions> layouts() {
  std::vector<PipelineOptions> all;
  for (const DType compute : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const ModelSection& family : {small_gpt2(), small_llama()}) {
      PipelineOptions options;
      options.model = family;
      options.compute = compute;
      options.micro_batches = 3;
      for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full}) {
        options.recompute = mode;
        all.push_back(options);
      }
      options.model.dropout = 0.1;
      options.document_mask = true;
      model::StageConfig first;
      first.end = 4;
      first.forward_slots = 3;
      first.weight_slots = 2;
      first.kept_slots = 4;
      options.boundary_buffers = 2;
      model::StageConfig last;
      last.begin = 4;
      last.end = 6;
      options.ranks = {{first}, {last}};
      all.push_back(options);
    }
  }
  return all;
}

TEST(MemoryPlan, EqualsTheDevicesAccounts) {
  for (const PipelineOptions& options : layouts()) {
    Pipeline pipeline(options);
    for (size_t rank = 0; rank < pipeline.ranks(); ++rank) {
      model::RankModel& model = pipeline.model(rank);
      const MemoryPlan plan = model.memory().plan();
      EXPECT_EQ(model.memory().unclaimed(), std::vector<std::string>{});
      for (int index = 0; index < arena_tag_count; ++index) {
        const auto tag = static_cast<ArenaTag>(index);
        std::vector<std::pair<std::string, size_t>> planned;
        for (const PlannedAllocation& piece : plan.allocations)
          if (piece.tag == tag) planned.emplace_back(piece.name, piece.bytes);
        ASSERT_EQ(pipeline.device(rank).has_arena(tag), !planned.empty()) << name_of(tag);
        if (planned.empty()) continue;
        const Arena& arena = pipeline.device(rank).arena(tag);
        std::vector<std::pair<std::string, size_t>> taken;
        for (const Allocation& piece : arena.allocations()) taken.emplace_back(piece.name, piece.bytes);
        EXPECT_EQ(taken, planned) << name_of(tag);
        EXPECT_EQ(arena.used(), plan.bytes(tag)) << name_of(tag);
        EXPECT_EQ(arena.capacity(), plan.bytes(tag)) << name_of(tag);
      }
    }
  }
}

size_t piece(const MemoryPlan& plan, const std::string& name) {
  for (const PlannedAllocation& allocation : plan.allocations)
    if (allocation.name == name) return allocation.bytes;
  return 0;
}

TEST(MemoryPlan, HoldsWhatTheModelNeedsAndNoMore) {
  PipelineOptions options;
  options.model = small_gpt2();
  Pipeline pipeline(options);
  const MemoryPlan fp32 = pipeline.model().memory().plan();
  // Weight (128,24), bias (24), each a multiple of 256 bytes, fp32.
  const size_t tokens = 128 * 24 * 4;
  const size_t positions = 1280;  // 13·24·4 = 1248
  EXPECT_EQ(piece(fp32, "embedding.master"), tokens + positions);
  EXPECT_EQ(piece(fp32, "embedding.compute"), 0U);
  EXPECT_EQ(piece(fp32, "head.master"), 2U * 256U);             // norm weight and bias: the rest is shared
  EXPECT_EQ(piece(fp32, "head.gradient"), 2U * 256U + tokens);  // and its own accumulator
  EXPECT_EQ(piece(fp32, "head.moment1"), 2U * 256U);
  EXPECT_EQ(fp32.bytes(ArenaTag::communication), 0U);
  EXPECT_EQ(fp32.bytes(), fp32.bytes(ArenaTag::parameters) + fp32.bytes(ArenaTag::gradients) +
                              fp32.bytes(ArenaTag::optimizer) + fp32.bytes(ArenaTag::activations) +
                              fp32.bytes(ArenaTag::workspace));
  options.compute = DType::bf16;
  Pipeline half(options);
  EXPECT_EQ(piece(half.model().memory().plan(), "embedding.compute"), tokens / 2 + 768U);
  EXPECT_THAT(fp32.table(), ::testing::HasSubstr("attention_1.kept"));
}

TEST(MemoryPlan, RecomputationTakesLess) {
  std::map<RecomputeMode, size_t> activations;
  for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full}) {
    PipelineOptions options;
    options.model = small_llama();
    options.micro_batches = 8;
    options.recompute = mode;
    model::StageConfig stage = model::whole_model(options.model, mode);
    stage.forward_slots = stage.kept_slots = 8;
    options.ranks = {{stage}};
    activations[mode] = Pipeline(options).model().memory().plan().bytes(ArenaTag::activations);
  }
  EXPECT_LT(activations[RecomputeMode::selective], activations[RecomputeMode::none] * 3 / 4);
  EXPECT_LT(activations[RecomputeMode::full], activations[RecomputeMode::selective] / 2);
}

// Planning alone: nothing of it is reserved.
TEST(MemoryPlan, OfGpt2124MInFp32StaysBelowItsLimit) {
  ModelSection gpt2 = small_gpt2();
  gpt2.layers = 12;
  gpt2.hidden_size = 768;
  gpt2.heads = gpt2.kv_heads = 12;
  gpt2.head_dim = 64;
  gpt2.ffn_hidden_size = 3072;
  gpt2.sequence_length = 64;
  gpt2.vocab_size = 50257;
  model::RankConfig config;
  config.model = gpt2;
  config.micro_batch = 4;
  config.stages = {model::whole_model(gpt2, RecomputeMode::none)};
  const std::unique_ptr<Device> device = cpu::make_cpu_device({});
  math::Math math = cpu::make_math(*device);
  const MemoryPlan plan = plan_memory(config, model::make_call_sites(math, config));
  const auto parameters = static_cast<size_t>(model::parameter_count(gpt2));
  EXPECT_GT(plan.bytes(), 16 * parameters);  // master, gradient, two moments
  EXPECT_LT(plan.bytes(), size_t{2400} << 20);
}

TEST(PlannedMemory, RefusesWhatWasNotPlanned) {
  PipelineOptions options;
  options.model = small_gpt2();
  Pipeline pipeline(options);
  model::PlannedMemory& memory = pipeline.model().memory();
  EXPECT_THROW(memory.claim(ArenaTag::workspace, "nothing", 256), UsageError);
  EXPECT_THROW(memory.claim(ArenaTag::workspace, "losses", 8), UsageError);  // the model has them
}

TEST(Slots, FollowWhenATensorLives) {
  using model::Phase;
  using model::Pool;
  for (const ModelSection& model : {small_gpt2(), small_llama()}) {
    for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full}) {
      for (int unit = 0; unit < model::unit_count(model); ++unit) {
        const auto tensors =
            model::slot_tensors(model, model::unit_at(model, unit), DType::fp32, {2, 5}, mode);
        for (const model::SlotTensor& tensor : tensors) {
          EXPECT_LE(tensor.born, tensor.dies);
          EXPECT_FALSE(tensor.born == Phase::recompute && mode == RecomputeMode::none);
          if (mode == RecomputeMode::full && tensor.id != model::SlotTensorId::input) {
            EXPECT_NE(pool_of(tensor), Pool::forward) << name_of(tensor.id);
            EXPECT_NE(pool_of(tensor), Pool::kept) << name_of(tensor.id);
          }
        }
      }
    }
  }
}

// Per token of a GPT-2 layer, in values of C: kept from F 16 (without statistics), from I to W 16 more at
// most.
TEST(Slots, OfAGpt2LayerAreAsLargeAsKnown) {
  const ModelSection model = small_gpt2();
  int64_t from_forward = 0;
  int64_t from_gradient = 0;
  for (const int unit : {1, 2}) {
    for (const auto& tensor :
         model::slot_tensors(model, model::unit_at(model, unit), DType::fp32, {1, 1}, RecomputeMode::none)) {
      if (tensor.shape[tensor.shape.rank - 1] < model.hidden_size) continue;  // statistics
      const int64_t values = tensor.shape.elements() / model.hidden_size;
      const model::Pool pool = pool_of(tensor);
      from_forward += pool == model::Pool::forward || pool == model::Pool::kept ? values : 0;
      from_gradient += pool == model::Pool::weight ? values : 0;
    }
  }
  EXPECT_EQ(from_forward, 16);
  EXPECT_EQ(from_gradient, 9);  // d_output twice, d_qkv 3, d_up 4
}

TEST(Slots, RefuseAnUnresolvedMode) {
  EXPECT_THROW(model::slot_tensors(small_gpt2(), {}, DType::fp32, {1, 1}, RecomputeMode::automatic),
               UsageError);
}

}  // namespace
}  // namespace penstock::testing
