#include "model/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/device/error.h"
#include "model/memory_plan.h"
#include "model/unit_id.h"

namespace penstock::model {

OptimizerStep::OptimizerStep(PlannedMemory& memory, math::Math& math, const RankConfig& config,
                             ParameterStore& parameters)
    : math_(math), section_(config.optimizer), parameters_(parameters), sharded_(config.shard.count > 1) {
  int64_t largest = 0;
  int64_t count = 0;
  for (const ParameterSpec& spec : model_parameters(config.model)) {
    largest = std::max(largest, spec.shape.elements());
    ++count;
  }
  const auto steps = static_cast<int64_t>(config.weight_versions);
  scalars_ = memory.claim(ArenaTag::workspace, "step_scalars", DType::u8,
                          Shape{steps * static_cast<int64_t>(sizeof(math::StepScalars))});
  int64_t blocks = math::norm_blocks(largest);
  if (sharded_) blocks = place_blocks(config);
  blocks_ = memory.claim(ArenaTag::workspace, "optimizer.blocks", DType::fp64, Shape{blocks});
  sums_ = memory.claim(ArenaTag::workspace, "optimizer.sums", DType::fp64, Shape{count});
  if (exchanges_tied_gradient(config)) {
    const auto elements = static_cast<int64_t>(tied_exchange_bytes(config) / size_of(DType::fp32));
    received_tied_ =
        memory.claim(ArenaTag::communication, "tied.received_gradient", DType::fp32, Shape{elements});
  }
  upload_memory_ =
      memory.device().create_host_memory("step scalars", uploads_.size() * sizeof(math::StepScalars));
  auto* scalars = upload_memory_->as<math::StepScalars>();
  for (Upload& upload : uploads_) {
    upload.done = memory.device().create_event("step scalars read");
    upload.scalars = scalars++;
  }
}

void OptimizerStep::begin(Stream& stream, const StepInputs& inputs) {
  Upload& upload = uploads_[inputs.step % uploads_.size()];
  if (upload.used) upload.done->synchronize();
  const auto power = static_cast<double>(inputs.step + 1);
  math::StepScalars& scalars = *upload.scalars;
  scalars = {};
  scalars.step = inputs.step;
  scalars.gradient_scale = static_cast<float>(inputs.loss_scale / static_cast<double>(inputs.target_tokens));
  scalars.loss_scale = static_cast<float>(inputs.loss_scale);
  scalars.learning_rate = static_cast<float>(inputs.learning_rate);
  scalars.bias_correction1 = static_cast<float>(1.0 - std::pow(section_.beta1, power));
  scalars.bias_correction2 = static_cast<float>(1.0 - std::pow(section_.beta2, power));
  stream.copy(scalars_.as<math::StepScalars>() + selected_, &scalars, sizeof(scalars));
  stream.record(*upload.done);
  upload.used = true;
  parameters_.begin_gradients(stream, math_.gemm->overwrites());
}

int64_t OptimizerStep::place_blocks(const RankConfig& config) {
  int64_t unit_begin = 0;
  int64_t next = 0;
  int unit = -1;
  for (const Parameter& parameter : parameters_.parameters()) {
    if (parameter.unit != unit) {
      if (unit >= 0) {
        const auto specs = unit_parameters(config.model, unit_at(config.model, unit));
        unit_begin += static_cast<int64_t>(block_sum_bytes(specs) / size_of(DType::fp64));
      }
      unit = parameter.unit;
      next = unit_begin;
    }
    first_block_.push_back(next);
    if (!parameter.spec.tied) next += math::norm_blocks(parameter.spec.slice.elements());
  }
  const auto specs = unit_parameters(config.model, unit_at(config.model, unit));
  return unit_begin + static_cast<int64_t>(block_sum_bytes(specs) / size_of(DType::fp64));
}

const Parameter& OptimizerStep::tied() const {
  return parameters_.tied_head() ? *parameters_.tied_head() : *parameters_.tied_embedding();
}

Tensor OptimizerStep::sent_tied_gradient() const {
  return received_tied_gradient() ? parameters_.owned_gradient(tied()) : Tensor();
}

Tensor OptimizerStep::received_tied_gradient() const {
  if (!received_tied_ || tied().owned.elements() == 0) return {};
  return received_tied_.rows(0, tied().owned.elements());
}

void OptimizerStep::add_tied(Stream& stream) {
  const Parameter* embedding = parameters_.tied_embedding();
  const Parameter* head = parameters_.tied_head();
  if ((!embedding && !head) || tied().owned.elements() == 0) return;
  if (embedding && head) {
    const Tensor sum = parameters_.owned_gradient(*embedding);
    math_.pointwise->add(stream, parameters_.owned_gradient(*head), sum, sum);
  } else if (embedding) {
    const Tensor sum = parameters_.owned_gradient(*embedding);
    math_.pointwise->add(stream, received_tied_gradient(), sum, sum);
  } else {
    const Tensor sum = parameters_.owned_gradient(*head);
    math_.pointwise->add(stream, sum, received_tied_gradient(), sum);
  }
}

void OptimizerStep::add_up(Stream& stream, const Parameter& parameter, const Tensor& blocks) {
  math_.reduce->sum(stream, blocks, sums_.as<double>() + parameter.index);
}

void OptimizerStep::squares(Stream& stream) {
  stream.fill_zero(sums_.data, sums_.bytes());
  if (sharded_) stream.fill_zero(blocks_.data, blocks_.bytes());
  for (size_t i = 0; i < parameters_.parameters().size(); ++i) {
    const Parameter& parameter = parameters_.parameters()[i];
    if (parameter.spec.tied || parameter.owned.elements() == 0) continue;
    if (!sharded_ && parameter.copy > 0) continue;
    const int64_t first = sharded_ ? first_block_[i] + parameter.owned.begin / math::norm_block : 0;
    const Tensor blocks = blocks_.rows(first, math::norm_blocks(parameter.owned.elements()));
    math_.reduce->squares(stream, parameters_.owned_gradient(parameter), blocks);
    if (!sharded_) add_up(stream, parameter, blocks);
  }
}

void OptimizerStep::add_blocks(Stream& stream) {
  for (size_t i = 0; i < parameters_.parameters().size(); ++i) {
    const Parameter& parameter = parameters_.parameters()[i];
    if (parameter.spec.tied || parameter.copy > 0) continue;
    add_up(stream, parameter,
           blocks_.rows(first_block_[i], math::norm_blocks(parameter.spec.slice.elements())));
  }
}

void OptimizerStep::norm(Stream& stream) {
  math_.reduce->global_norm(stream, sums_, static_cast<float>(section_.clip_norm),
                            scalars_.as<math::StepScalars>() + selected_);
}

void OptimizerStep::overrule(Stream& stream, const math::StepScalars* host) {
  stream.copy(scalars_.as<math::StepScalars>() + selected_, host, sizeof(*host));
}

void OptimizerStep::update(Stream& stream) {
  parameters_.set_gathered(false);
  for (const Parameter& parameter : parameters_.parameters()) {
    if (parameter.shared) continue;
    // Of what others own too: it is gathered in the version of now alone.
    if (parameter.before)
      stream.copy(parameter.before.data, parameter.compute.data, parameter.before.bytes());
    if (parameter.owned.elements() == 0) continue;
    math::AdamWConstants constants;
    constants.beta1 = static_cast<float>(section_.beta1);
    constants.beta2 = static_cast<float>(section_.beta2);
    constants.epsilon = static_cast<float>(section_.epsilon);
    constants.weight_decay = parameter.spec.decay ? static_cast<float>(section_.weight_decay) : 0.0F;
    math_.optimizer->adamw(stream, parameter.owned_master(), parameters_.owned_gradient(parameter),
                           parameter.moment1, parameter.moment2,
                           parameter.has_copy() ? parameter.owned_compute() : Tensor(), constants, scalars());
  }
}

void OptimizerStep::finish(Stream& stream) {
  if (received_tied_)
    throw UsageError("the tied weight's other half is on another rank: exchange the gradients first");
  if (sharded_) throw UsageError("a sharded optimizer's other members: add up the sums of blocks first");
  add_tied(stream);
  squares(stream);
  norm(stream);
  update(stream);
}

}  // namespace penstock::model
