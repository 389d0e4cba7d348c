#include "parallel/runtime/model_footprint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/device/error.h"
#include "model/boundary.h"
#include "model/call_sites.h"
#include "model/memory_plan.h"
#include "model/parameter.h"
#include "model/slot.h"
#include "model/unit_id.h"
#include "parallel/runtime/partition.h"
#include "parallel/runtime/pipeline_plan.h"

namespace penstock::runtime {

using model::Pool;
using model::RankConfig;
using model::SlotLayout;
using model::StageConfig;
using model::UnitBuffers;

namespace {

int64_t signed_bytes(size_t bytes) {
  return static_cast<int64_t>(bytes);
}

UnitBuffers buffers_of(const RankConfig& common, int unit, bool shares_tied_weight, int shards) {
  return unit_buffers(model::unit_parameters(common.model, model::unit_at(common.model, unit)),
                      common.compute, shares_tied_weight, {shards, 0});
}

int64_t resident(const RankConfig& common, const UnitBuffers& buffers) {
  const size_t versions = common.weight_versions > 1 ? buffers.read_bytes + buffers.gradient_bytes : 0;
  return signed_bytes(buffers.master_bytes + 2 * buffers.moment_bytes + buffers.copy_bytes +
                      buffers.gradient_bytes + versions);
}

StageConfig stage_of(int unit) {
  StageConfig stage;
  stage.begin = unit;
  stage.end = unit + 1;
  return stage;
}

// Bytes of the unit's side band that a stage of attention has too, or else has not.
int64_t side_band_of(const RankConfig& common, int unit, bool in_attention) {
  const auto attention = side_band(common, stage_of(1));
  int64_t bytes = 0;
  for (const model::SideBandTensor& tensor : side_band(common, stage_of(unit))) {
    const bool found =
        std::any_of(attention.begin(), attention.end(),
                    [&](const model::SideBandTensor& other) { return other.member == tensor.member; });
    if (found == in_attention)
      bytes += signed_bytes(aligned(static_cast<size_t>(tensor.shape.elements()) * size_of(tensor.dtype)));
  }
  return bytes;
}

planner::ModeCosts slots_of(const RankConfig& common, int unit, planner::Recompute mode) {
  const SlotLayout layout(slot_tensors(common.model, model::unit_at(common.model, unit), common.compute,
                                       common.shape(), recompute_mode(mode)));
  planner::ModeCosts costs;
  costs.forward_bytes = signed_bytes(layout.bytes(Pool::forward)) + side_band_of(common, unit, false);
  costs.kept_bytes = signed_bytes(layout.bytes(Pool::kept));
  costs.weight_bytes = signed_bytes(layout.bytes(Pool::weight));
  costs.transient_bytes = signed_bytes(layout.bytes(Pool::transient));
  return costs;
}

// What a rank holds whichever its units are. `plan`: of a rank with attention.
int64_t rank_bytes(const RankConfig& common, const model::MemoryPlan& plan,
                   const ReductionOptions& reduction) {
  size_t bytes = 0;
  for (const model::PlannedAllocation& piece : plan.allocations) {
    const bool of_units = piece.name == "transients" || piece.name == "plans" ||
                          (piece.name == "optimizer.blocks" && reduction.shards() > 1);
    if (piece.tag == ArenaTag::workspace && !of_units) bytes += piece.bytes;
  }
  RankConfig whole = common;
  whole.stages = {model::whole_model(common.model, RecomputeMode::none)};
  for (const model::PlannedAllocation& piece : reduction_memory(whole, reduction)) bytes += piece.bytes;
  bytes +=
      aligned(static_cast<size_t>(agreement_elements(common, reduction.replicas)) * size_of(DType::fp64));
  return signed_bytes(bytes);
}

}  // namespace

RecomputeMode recompute_mode(planner::Recompute mode) {
  constexpr std::array<RecomputeMode, planner::recompute_modes> modes{
      RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full};
  return modes[static_cast<size_t>(mode)];
}

planner::Recompute planned_mode(RecomputeMode mode) {
  switch (mode) {
    case RecomputeMode::none:
      return planner::Recompute::none;
    case RecomputeMode::selective:
      return planner::Recompute::selective;
    case RecomputeMode::full:
      return planner::Recompute::full;
    case RecomputeMode::automatic:
      break;
  }
  throw UsageError(
      "recompute mode \"auto\" must be resolved to none, selective or full before it is planned");
}

RankConfig one_unit(const RankConfig& common, int unit, RecomputeMode mode) {
  RankConfig config = common;
  StageConfig stage = stage_of(unit);
  stage.recompute = {mode};
  config.stages = {std::move(stage)};
  config.output_buffers = 1;
  config.d_input_buffers = 1;
  config.runtime_memory.clear();
  return config;
}

planner::ModelCosts model_footprint(const RankConfig& common, math::Math& math,
                                    const ReductionOptions& reduction) {
  const ModelSection& section = common.model;
  const int units = model::unit_count(section);
  const auto layers = unit_costs(section, PartitionMethod::layers);
  const auto parameters = unit_costs(section, PartitionMethod::parameters);
  const auto flops = unit_costs(section, PartitionMethod::flops);
  planner::ModelCosts costs;
  costs.micro_batch = common.micro_batch;
  costs.tokens = common.shape().rows();
  costs.boundary_bytes = signed_bytes(boundary_bytes(common));
  costs.tied_embeddings = section.tie_embeddings;
  for (int unit = 0; unit < units; ++unit) {
    const auto at = static_cast<size_t>(unit);
    const bool repeated = unit > 2 && unit + 1 < units;  // a layer like the first
    planner::UnitCosts made = repeated ? costs.units[at - 2] : planner::UnitCosts();
    made.name = name_of(model::unit_at(section, unit));
    made.layers = layers[at];
    if (!repeated) {
      const UnitBuffers buffers = buffers_of(common, unit, false, reduction.shards());
      const RankConfig alone = one_unit(common, unit, RecomputeMode::none);
      const model::CallSites sites = make_call_sites(math, alone);
      made.parameters = parameters[at];
      made.flops = flops[at] * static_cast<double>(costs.tokens);
      made.resident_bytes = resident(common, buffers);
      if (reduction.shards() > 1)
        made.resident_bytes += signed_bytes(
            model::block_sum_bytes(model::unit_parameters(section, model::unit_at(section, unit))));
      made.gradient_bytes = signed_bytes(buffers.gradient_bytes);
      made.side_band_bytes = side_band_of(common, unit, true);
      made.workspace_bytes = signed_bytes(aligned(sites.workspace_bytes()));
      for (size_t mode = 0; mode < planner::recompute_modes; ++mode)
        made.modes[mode] = slots_of(common, unit, static_cast<planner::Recompute>(mode));
      if (unit == 1) costs.rank_bytes = rank_bytes(common, plan_memory(alone, sites), reduction);
    }
    costs.units.push_back(std::move(made));
  }
  if (section.tie_embeddings) {
    const int head = units - 1;
    costs.tied_shared_bytes = resident(common, buffers_of(common, head, false, reduction.shards())) -
                              resident(common, buffers_of(common, head, true, reduction.shards()));
    RankConfig shared = common;
    shared.shard.count = reduction.shards();
    costs.tied_exchange_bytes = signed_bytes(tied_exchange_bytes(shared));
  }
  return costs;
}

}  // namespace penstock::runtime
