#include "model/memory_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/math/reduce.h"
#include "kernels/math/step_scalars.h"
#include "model/boundary.h"
#include "model/slot.h"
#include "model/unit_id.h"

namespace penstock::model {

void MemoryPlan::add(ArenaTag tag, std::string name, size_t bytes) {
  if (bytes > 0) allocations.push_back({tag, std::move(name), aligned(bytes)});
}

size_t MemoryPlan::bytes(ArenaTag tag) const {
  size_t sum = 0;
  for (const PlannedAllocation& piece : allocations) sum += piece.tag == tag ? piece.bytes : 0;
  return sum;
}

size_t MemoryPlan::bytes() const {
  size_t sum = 0;
  for (const PlannedAllocation& piece : allocations) sum += piece.bytes;
  return sum;
}

std::string MemoryPlan::table() const {
  std::string text;
  for (int index = 0; index < arena_tag_count; ++index) {
    const auto tag = static_cast<ArenaTag>(index);
    if (bytes(tag) == 0) continue;
    text += fmt::format("{:>16} {}\n", bytes(tag), name_of(tag));
    for (const PlannedAllocation& piece : allocations) {
      if (piece.tag == tag) text += fmt::format("{:>16}   {}\n", piece.bytes, piece.name);
    }
  }
  return text;
}

UnitBuffers unit_buffers(const std::vector<ParameterSpec>& specs, DType compute, bool shares_tied_weight) {
  UnitBuffers buffers;
  const auto place = [](bool there, size_t& end, int64_t elements, DType dtype) {
    if (!there) return UnitBuffers::npos;
    const size_t at = end;
    end += aligned(static_cast<size_t>(elements) * size_of(dtype));
    return at;
  };
  for (std::vector<size_t>* offsets : {&buffers.full, &buffers.copy, &buffers.gradient})
    offsets->resize(specs.size());
  for (const bool weight_half : {false, true}) {
    if (weight_half) buffers.weight_half = buffers.gradient_bytes;
    for (size_t i = 0; i < specs.size(); ++i) {
      const ParameterSpec& spec = specs[i];
      if (spec.in_weight_half != weight_half) continue;
      const bool owned = !(spec.tied && shares_tied_weight);
      const int64_t elements = spec.slice.elements();
      const bool copied = owned && spec.compute_copy && compute != DType::fp32;
      buffers.full[i] = place(owned, buffers.full_bytes, elements, DType::fp32);
      buffers.copy[i] = place(copied, buffers.copy_bytes, elements, compute);
      buffers.gradient[i] = place(true, buffers.gradient_bytes, elements, DType::fp32);
    }
  }
  return buffers;
}

std::string unit_piece(const ModelSection& model, int unit, std::string_view piece) {
  return fmt::format("{}.{}", name_of(unit_at(model, unit)), piece);
}

std::string stage_piece(size_t stage, std::string_view piece) {
  return fmt::format("stage{}.{}", stage, piece);
}

size_t boundary_bytes(const RankConfig& config) {
  size_t bytes = 0;
  for (const BoundaryTensor& tensor : boundary(config))
    bytes += aligned(static_cast<size_t>(tensor.shape.elements()) * size_of(tensor.dtype));
  return bytes;
}

size_t staging_bytes(const RankConfig& config) {
  if (wire_dtype(config) == config.compute || !(has_output(config) || has_d_input(config))) return 0;
  const Shape& hidden = boundary(config).front().shape;
  return aligned(static_cast<size_t>(hidden.elements()) * size_of(config.compute));
}

bool has_output(const RankConfig& config) {
  return std::any_of(config.stages.begin(), config.stages.end(),
                     [&](const StageConfig& stage) { return stage.end < unit_count(config.model); });
}

bool has_d_input(const RankConfig& config) {
  return std::any_of(config.stages.begin(), config.stages.end(),
                     [](const StageConfig& stage) { return stage.begin > 0; });
}

namespace {

void plan_parameters(const RankConfig& config, int unit, MemoryPlan& plan) {
  const UnitBuffers buffers = unit_buffers(unit_parameters(config.model, unit_at(config.model, unit)),
                                           config.compute, shares_tied_weight(config));
  const auto name = [&](std::string_view piece) { return unit_piece(config.model, unit, piece); };
  plan.add(ArenaTag::parameters, name("master"), buffers.full_bytes);
  plan.add(ArenaTag::parameters, name("compute"), buffers.copy_bytes);
  plan.add(ArenaTag::gradients, name("gradient"), buffers.gradient_bytes);
  if (config.gradient_sets > 1) plan.add(ArenaTag::gradients, name("gradient2"), buffers.gradient_bytes);
  plan.add(ArenaTag::optimizer, name("moment1"), buffers.full_bytes);
  plan.add(ArenaTag::optimizer, name("moment2"), buffers.full_bytes);
}

// Adds a unit's slots; returns what it needs of the shared transient memory.
size_t plan_slots(const RankConfig& config, const StageConfig& stage, int unit, MemoryPlan& plan) {
  const RecomputeMode mode = stage.recompute.empty()
                                 ? RecomputeMode::none
                                 : stage.recompute[static_cast<size_t>(unit - stage.begin)];
  const SlotLayout layout(
      slot_tensors(config.model, unit_at(config.model, unit), config.compute, config.shape(), mode));
  const auto add = [&](Pool pool, int slots) {
    plan.add(ArenaTag::activations, unit_piece(config.model, unit, name_of(pool)),
             layout.bytes(pool) * static_cast<size_t>(slots));
  };
  add(Pool::forward, stage.forward_slots);
  add(Pool::kept, stage.kept_slots);
  add(Pool::weight, stage.weight_slots);
  return layout.bytes(Pool::transient);
}

}  // namespace

MemoryPlan plan_memory(const RankConfig& config, const CallSites& sites) {
  check(config);
  MemoryPlan plan;
  size_t transients = 0;
  for (size_t index = 0; index < config.stages.size(); ++index) {
    const StageConfig& stage = config.stages[index];
    for (int unit = stage.begin; unit < stage.end; ++unit) {
      plan_parameters(config, unit, plan);
      transients = std::max(transients, plan_slots(config, stage, unit, plan));
    }
    plan.add(ArenaTag::activations, stage_piece(index, "side_band"),
             side_band_bytes(config, stage) * static_cast<size_t>(stage.forward_slots));
  }
  if (has_output(config)) {
    plan.add(ArenaTag::communication, "boundary.output",
             boundary_bytes(config) * static_cast<size_t>(config.output_buffers));
  }
  if (has_d_input(config)) {
    plan.add(ArenaTag::communication, "boundary.d_input",
             boundary_bytes(config) * static_cast<size_t>(config.d_input_buffers));
  }
  plan.add(ArenaTag::workspace, "boundary.staging", staging_bytes(config));
  int64_t largest = 0;
  size_t parameters = 0;
  for (const ParameterSpec& spec : model_parameters(config.model)) {
    largest = std::max(largest, spec.shape.elements());
    ++parameters;
    if (exchanges_tied_gradient(config) && spec.name == "embedding.token.weight") {
      plan.add(ArenaTag::communication, "tied.received_gradient",
               static_cast<size_t>(spec.slice.elements()) * size_of(DType::fp32));
    }
  }
  plan.add(ArenaTag::workspace, "transients", transients);
  plan.add(ArenaTag::workspace, "plans", sites.workspace_bytes());
  if (config.model.family == Family::llama && sites.attention) {
    plan.add(
        ArenaTag::workspace, "rope_table",
        static_cast<size_t>(config.model.sequence_length * config.model.head_dim) * size_of(DType::fp32));
  }
  plan.add(ArenaTag::workspace, "step_scalars", sizeof(math::StepScalars));
  plan.add(ArenaTag::workspace, "losses",
           static_cast<size_t>(config.micro_batches * loss_terms) * size_of(DType::fp64));
  plan.add(ArenaTag::workspace, "optimizer.blocks",
           static_cast<size_t>(math::norm_blocks(largest)) * size_of(DType::fp64));
  plan.add(ArenaTag::workspace, "optimizer.sums", parameters * size_of(DType::fp64));
  plan.add(ArenaTag::workspace, "diagnosis.count", size_of(DType::i64));
  for (const PlannedAllocation& piece : config.runtime_memory) plan.add(piece.tag, piece.name, piece.bytes);
  return plan;
}

}  // namespace penstock::model
