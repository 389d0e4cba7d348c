#include "model/rank_config.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/unit_id.h"

namespace penstock::model {

SlotLayout slot_layout(const RankConfig& config, int unit, RecomputeMode mode) {
  const UnitId id = unit_at(config.model, unit);
  if (!config.forward_only)
    return SlotLayout(slot_tensors(config.model, id, config.compute, config.shape(), mode));
  // As if all were to be rebuilt: what a forward makes is scratch.
  std::vector<SlotTensor> tensors =
      slot_tensors(config.model, id, config.compute, config.shape(), RecomputeMode::full);
  std::erase_if(tensors, [](const SlotTensor& each) { return each.born != Phase::forward; });
  return SlotLayout(std::move(tensors));
}

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return DType::fp32;
    case Precision::bf16:
      return DType::bf16;
    case Precision::fp16:
      return DType::fp16;
    case Precision::fp8:
      break;
  }
  throw UsageError("precision.compute: units run in fp32, bf16 or fp16");
}

DType wire_dtype(const RankConfig& config) {
  return config.wire.value_or(config.compute);
}

StageConfig whole_model(const ModelSection& model, RecomputeMode mode) {
  StageConfig stage;
  stage.end = unit_count(model);
  stage.recompute.assign(static_cast<size_t>(stage.end), mode);
  return stage;
}

void check(const RankConfig& config) {
  int previous_end = 0;
  const int units = unit_count(config.model);
  for (const StageConfig& stage : config.stages) {
    if (stage.begin < previous_end || stage.end <= stage.begin || stage.end > units) {
      throw UsageError(fmt::format("a stage of units [{}, {}) after unit {}, in a model of {} units",
                                   stage.begin, stage.end, previous_end, units));
    }
    if (!stage.recompute.empty() && stage.recompute.size() != static_cast<size_t>(stage.end - stage.begin)) {
      throw UsageError(fmt::format("a stage of {} units was given {} recompute modes",
                                   stage.end - stage.begin, stage.recompute.size()));
    }
    if (std::min({stage.forward_slots, stage.kept_slots, stage.weight_slots}) < 1) {
      throw UsageError(
          fmt::format("the stage of units [{}, {}) has a pool without a slot", stage.begin, stage.end));
    }
    previous_end = stage.end;
  }
  for (const DType dtype : {config.compute, wire_dtype(config)}) {
    if (dtype != DType::fp32 && dtype != DType::bf16 && dtype != DType::fp16) {
      throw UsageError(
          fmt::format("units compute and send in fp32, bf16 or fp16, not in {}", name_of(dtype)));
    }
  }
  if (config.output_buffers < 1 || config.d_input_buffers < 1) {
    throw UsageError(fmt::format("{} buffers of outputs, {} of input gradients: each must be at least 1",
                                 config.output_buffers, config.d_input_buffers));
  }
  if (config.gradient_sets < 1 || config.gradient_sets > 2)
    throw UsageError(fmt::format("{} sets of gradients: there are 1 or 2", config.gradient_sets));
  if (config.weight_versions < 1 || config.weight_versions > config.gradient_sets) {
    throw UsageError(fmt::format("{} versions of the weights with {} sets of gradients: each needs its own",
                                 config.weight_versions, config.gradient_sets));
  }
  if (config.forward_only && (config.gradient_sets > 1 || config.shard.count > 1))
    throw UsageError("a rank that takes no step has one version of the weights and no sharded optimizer");
  if (config.stages.empty() || config.micro_batch < 1 || config.micro_batches < 1) {
    throw UsageError(
        fmt::format("{} stages, {} sequences a micro-batch, {} micro-batches: each must be at least 1",
                    config.stages.size(), config.micro_batch, config.micro_batches));
  }
}

bool has_unit(const RankConfig& config, int unit) {
  return std::any_of(config.stages.begin(), config.stages.end(),
                     [unit](const StageConfig& stage) { return unit >= stage.begin && unit < stage.end; });
}

int copy_of_unit(const RankConfig& config, int unit) {
  for (const StageConfig& stage : config.stages) {
    if (unit >= stage.begin && unit < stage.end) return stage.copy;
  }
  return 0;
}

bool shares_tied_weight(const RankConfig& config) {
  return config.model.tie_embeddings && has_unit(config, 0) && has_unit(config, unit_count(config.model) - 1);
}

bool exchanges_tied_gradient(const RankConfig& config) {
  if (config.forward_only) return false;
  return config.model.tie_embeddings && has_unit(config, 0) != has_unit(config, unit_count(config.model) - 1);
}

}  // namespace penstock::model
