#include "model/rank_model.h"

#include <utility>

#include "model/rope_table.h"

namespace penstock::model {

RankModel::RankModel(Device& device, math::Math& math, RankConfig config)
    : config_(std::move(config)),
      math_(math),
      sites_(make_call_sites(math, config_)),
      memory_(device, plan_memory(config_, sites_)),
      parameters_(memory_, config_),
      optimizer_(memory_, math, config_, parameters_),
      host_losses_(static_cast<size_t>(config_.weight_versions * config_.micro_batches * loss_terms)) {
  losses_ = memory_.claim(ArenaTag::workspace, "losses", DType::fp64,
                          Shape{config_.weight_versions * config_.micro_batches, loss_terms});
  nonfinite_count_ = memory_.claim(ArenaTag::workspace, "diagnosis.count", DType::i64, Shape{1});
  if (config_.model.family == Family::llama && sites_.attention) {
    rope_table_ = memory_.claim(ArenaTag::workspace, "rope_table", DType::fp32,
                                Shape{config_.model.sequence_length, config_.model.head_dim / 2, 2});
  }
  const auto workspace = static_cast<int64_t>(sites_.workspace_bytes());
  size_t transients = 0;
  for (const PlannedAllocation& piece : memory_.plan().allocations) {
    if (piece.tag == ArenaTag::workspace && piece.name == "transients") transients = piece.bytes;
  }
  unit_context_ = std::make_unique<UnitContext>(UnitContext{
      config_, math_, sites_, parameters_, optimizer_.scalars(), rope_table_,
      memory_.claim(ArenaTag::workspace, "plans", DType::u8, Shape{workspace}),
      static_cast<char*>(memory_.claim(ArenaTag::workspace, "transients", transients)), tensor_, context_});
  const auto boundary_memory = [&](bool used, const char* name, int buffers) {
    const size_t bytes = used ? boundary_bytes(config_) * static_cast<size_t>(buffers) : 0;
    return static_cast<char*>(memory_.claim(ArenaTag::communication, name, bytes));
  };
  Stage::Boundaries boundaries;
  boundaries.outputs = boundary_memory(has_output(config_), "boundary.output", config_.output_buffers);
  boundaries.d_inputs = boundary_memory(has_d_input(config_), "boundary.d_input", config_.d_input_buffers);
  boundaries.staging =
      static_cast<char*>(memory_.claim(ArenaTag::workspace, "boundary.staging", staging_bytes(config_)));
  for (size_t index = 0; index < config_.stages.size(); ++index) {
    stages_.push_back(std::make_unique<Stage>(*unit_context_, memory_, index, losses_, boundaries));
  }
}

void RankModel::initialise(Stream& stream) {
  parameters_.initialise(stream, math_, config_.seed);
  load_constants(stream);
}

void RankModel::load_constants(Stream& stream) {
  zero_losses(stream);
  if (rope_table_) {
    const std::vector<float> table = rope_table(config_.model);
    stream.copy(rope_table_.data, table.data(), rope_table_.bytes());
    stream.synchronize();  // before the table on the host is gone
  }
}

Tensor RankModel::losses() const {
  return losses_.rows(static_cast<int64_t>(selected_) * config_.micro_batches, config_.micro_batches);
}

void RankModel::select_step(size_t step) {
  selected_ = step;
  parameters_.select_gradients(step);
  optimizer_.select(step);
  unit_context_->scalars = optimizer_.scalars();
}

void RankModel::zero_losses(Stream& stream) {
  stream.fill_zero(losses_.data, losses_.bytes());
}

StepResult RankModel::read(Stream& stream) {
  stream.copy(host_losses_.data(), losses_.data, losses_.bytes());
  stream.copy(&host_scalars_, optimizer_.scalars(), sizeof(host_scalars_));
  stream.synchronize();
  StepResult result;
  for (const double loss : host_losses_) result.loss_sum += loss;
  result.gradient_norm = host_scalars_.gradient_norm;
  result.applied = host_scalars_.apply != 0;
  return result;
}

}  // namespace penstock::model
