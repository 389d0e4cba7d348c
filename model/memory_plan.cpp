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

namespace {

// Places what each member owns of a run one behind the other; `end` grows by what the largest needs.
void place_owned(const std::vector<ParameterSpec>& specs, const ShardRun& run, const Shard& shard,
                 std::vector<size_t>& offsets, size_t& end) {
  size_t most = 0;
  for (int member = 0; member < shard.count; ++member) {
    const std::vector<Slice> slices = shard_slices(specs, {shard.count, member});
    size_t bytes = 0;
    for (const size_t i : run) {
      if (member == shard.member) offsets[i] = end + bytes;
      bytes += aligned(static_cast<size_t>(slices[i].elements()) * size_of(DType::fp32));
    }
    most = std::max(most, bytes);
  }
  end += most;
}

// What no step takes is not there; a master only where kernels read it.
void leave_what_is_read(UnitBuffers& buffers) {
  for (std::vector<size_t>* offsets : {&buffers.moment, &buffers.read, &buffers.gradient})
    std::fill(offsets->begin(), offsets->end(), UnitBuffers::npos);
  buffers.moment_bytes = buffers.read_bytes = buffers.gradient_bytes = buffers.weight_half = 0;
}

}  // namespace

UnitBuffers unit_buffers(const std::vector<ParameterSpec>& specs, DType compute, bool shares_tied_weight,
                         const Shard& shard, bool forward_only) {
  UnitBuffers buffers;
  buffers.owned = shard_slices(specs, shard);
  buffers.whole_master.assign(specs.size(), true);
  for (std::vector<size_t>* offsets :
       {&buffers.master, &buffers.moment, &buffers.copy, &buffers.read, &buffers.gradient})
    offsets->assign(specs.size(), UnitBuffers::npos);
  const auto place = [&](size_t i, std::vector<size_t>& offsets, size_t& end, DType dtype) {
    offsets[i] = end;
    end += aligned(static_cast<size_t>(specs[i].slice.elements()) * size_of(dtype));
  };
  bool weight_half = false;
  for (const ShardRun& run : shard_runs(specs)) {
    const ParameterSpec& first = specs[run.front()];
    if (first.in_weight_half && !weight_half) buffers.weight_half = buffers.gradient_bytes;
    weight_half = first.in_weight_half;
    for (const size_t i : run) place(i, buffers.gradient, buffers.gradient_bytes, DType::fp32);
    if (first.tied && shares_tied_weight) continue;
    const bool copied = first.compute_copy && compute != DType::fp32;
    for (const size_t i : run) {
      if (copied) place(i, buffers.copy, buffers.copy_bytes, compute);
      place(i, buffers.read, buffers.read_bytes, copied ? compute : DType::fp32);
      buffers.whole_master[i] = shard.count == 1 || !copied;
      if (buffers.whole_master[i] && !(forward_only && copied))
        place(i, buffers.master, buffers.master_bytes, DType::fp32);
    }
    if (shard.count > 1 && copied) place_owned(specs, run, shard, buffers.master, buffers.master_bytes);
    place_owned(specs, run, shard, buffers.moment, buffers.moment_bytes);
  }
  if (!weight_half) buffers.weight_half = buffers.gradient_bytes;
  if (forward_only) leave_what_is_read(buffers);
  return buffers;
}

size_t block_sum_bytes(const std::vector<ParameterSpec>& specs) {
  int64_t blocks = 0;
  for (const ParameterSpec& spec : specs) blocks += spec.tied ? 0 : math::norm_blocks(spec.slice.elements());
  return aligned(static_cast<size_t>(blocks) * size_of(DType::fp64));
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
  const Shape hidden = boundary(config).front().shape;
  return aligned(static_cast<size_t>(hidden.elements()) * size_of(config.compute));
}

size_t tied_exchange_bytes(const RankConfig& config) {
  const auto specs = unit_parameters(config.model, unit_at(config.model, 0));
  int64_t most = 0;
  for (int member = 0; member < config.shard.count; ++member)
    most = std::max(most, shard_slices(specs, {config.shard.count, member}).front().elements());
  return aligned(static_cast<size_t>(most) * size_of(DType::fp32));
}

bool has_output(const RankConfig& config) {
  return std::any_of(config.stages.begin(), config.stages.end(),
                     [&](const StageConfig& stage) { return stage.end < unit_count(config.model); });
}

bool has_d_input(const RankConfig& config) {
  if (config.forward_only) return false;
  return std::any_of(config.stages.begin(), config.stages.end(),
                     [](const StageConfig& stage) { return stage.begin > 0; });
}

void plan_parameters(const RankConfig& config, int unit, MemoryPlan& plan) {
  const UnitBuffers buffers =
      unit_buffers(unit_parameters(config.model, unit_at(config.model, unit)), config.compute,
                   shares_tied_weight(config), config.shard, config.forward_only);
  const auto name = [&](std::string_view piece) { return unit_piece(config.model, unit, piece); };
  plan.add(ArenaTag::parameters, name("master"), buffers.master_bytes);
  plan.add(ArenaTag::parameters, name("compute"), buffers.copy_bytes);
  if (config.weight_versions > 1) plan.add(ArenaTag::parameters, name("before"), buffers.read_bytes);
  plan.add(ArenaTag::gradients, name("gradient"), buffers.gradient_bytes);
  if (config.gradient_sets > 1) plan.add(ArenaTag::gradients, name("gradient2"), buffers.gradient_bytes);
  plan.add(ArenaTag::optimizer, name("moment1"), buffers.moment_bytes);
  plan.add(ArenaTag::optimizer, name("moment2"), buffers.moment_bytes);
}

namespace {

// Adds a unit's slots; returns what it needs of the shared transient memory.
size_t plan_slots(const RankConfig& config, const StageConfig& stage, int unit, MemoryPlan& plan) {
  const RecomputeMode mode = stage.recompute.empty()
                                 ? RecomputeMode::none
                                 : stage.recompute[static_cast<size_t>(unit - stage.begin)];
  const SlotLayout layout = slot_layout(config, unit, mode);
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
  size_t blocks = 0;
  for (size_t index = 0; index < config.stages.size(); ++index) {
    const StageConfig& stage = config.stages[index];
    for (int unit = stage.begin; unit < stage.end; ++unit) {
      plan_parameters(config, unit, plan);
      blocks += block_sum_bytes(unit_parameters(config.model, unit_at(config.model, unit)));
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
  }
  if (exchanges_tied_gradient(config))
    plan.add(ArenaTag::communication, "tied.received_gradient", tied_exchange_bytes(config));
  plan.add(ArenaTag::workspace, "transients", transients);
  plan.add(ArenaTag::workspace, "plans", sites.workspace_bytes());
  if (config.model.family == Family::llama && sites.attention) {
    plan.add(
        ArenaTag::workspace, "rope_table",
        static_cast<size_t>(config.model.sequence_length * config.model.head_dim) * size_of(DType::fp32));
  }
  const auto steps = static_cast<size_t>(config.weight_versions);
  plan.add(ArenaTag::workspace, "step_scalars", steps * sizeof(math::StepScalars));
  plan.add(ArenaTag::workspace, "losses",
           steps * static_cast<size_t>(config.micro_batches * loss_terms) * size_of(DType::fp64));
  plan.add(ArenaTag::workspace, "optimizer.blocks",
           config.shard.count == 1 ? static_cast<size_t>(math::norm_blocks(largest)) * size_of(DType::fp64)
                                   : blocks);
  plan.add(ArenaTag::workspace, "optimizer.sums", parameters * size_of(DType::fp64));
  plan.add(ArenaTag::workspace, "diagnosis.count", size_of(DType::i64));
  for (const PlannedAllocation& piece : config.runtime_memory) plan.add(piece.tag, piece.name, piece.bytes);
  return plan;
}

}  // namespace penstock::model
