#include "model/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/device/error.h"

namespace penstock::model {

OptimizerStep::OptimizerStep(PlannedMemory& memory, math::Math& math, const RankConfig& config,
                             ParameterStore& parameters)
    : math_(math), section_(config.optimizer), parameters_(parameters) {
  int64_t largest = 0;
  int64_t count = 0;
  Shape tied;
  for (const ParameterSpec& spec : model_parameters(config.model)) {
    largest = std::max(largest, spec.shape.elements());
    ++count;
    if (spec.name == "embedding.token.weight") tied = spec.shape;
  }
  scalars_ = memory.claim(ArenaTag::workspace, "step_scalars", DType::u8, Shape{sizeof(math::StepScalars)});
  blocks_ =
      memory.claim(ArenaTag::workspace, "optimizer.blocks", DType::fp64, Shape{math::norm_blocks(largest)});
  sums_ = memory.claim(ArenaTag::workspace, "optimizer.sums", DType::fp64, Shape{count});
  if (exchanges_tied_gradient(config))
    received_tied_ = memory.claim(ArenaTag::communication, "tied.received_gradient", DType::fp32, tied);
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
  stream.copy(scalars_.data, &scalars, sizeof(scalars));
  stream.record(*upload.done);
  upload.used = true;
  parameters_.zero_gradients(stream);
}

Tensor OptimizerStep::sent_tied_gradient() const {
  if (!received_tied_) return {};
  const Parameter* mine = parameters_.tied_head() ? parameters_.tied_head() : parameters_.tied_embedding();
  return mine->gradient;
}

void OptimizerStep::add_tied(Stream& stream) {
  const Parameter* embedding = parameters_.tied_embedding();
  const Parameter* head = parameters_.tied_head();
  const auto flat = [](Tensor tensor) { return tensor.view(Shape{tensor.elements()}); };
  const auto add = [&](Tensor heads, Tensor embeddings, Tensor sum) {
    math_.pointwise->add(stream, flat(heads), flat(embeddings), flat(sum));
  };
  if (embedding && head) {
    add(head->gradient, embedding->gradient, embedding->gradient);
  } else if (embedding) {
    add(received_tied_, embedding->gradient, embedding->gradient);
  } else if (head) {
    add(head->gradient, received_tied_, head->gradient);
  }
}

void OptimizerStep::squares(Stream& stream) {
  stream.fill_zero(sums_.data, sums_.bytes());
  for (const Parameter& parameter : parameters_.parameters()) {
    if (parameter.spec.tied || parameter.copy > 0) continue;
    const Tensor gradient = parameter.gradient.view(Shape{parameter.gradient.elements()});
    const Tensor blocks = blocks_.rows(0, math::norm_blocks(gradient.elements()));
    math_.reduce->squares(stream, gradient, blocks);
    math_.reduce->sum(stream, blocks, sums_.as<double>() + parameter.index);
  }
}

void OptimizerStep::norm(Stream& stream) {
  math_.reduce->global_norm(stream, sums_, static_cast<float>(section_.clip_norm),
                            scalars_.as<math::StepScalars>());
}

void OptimizerStep::overrule(Stream& stream, const math::StepScalars* host) {
  stream.copy(scalars_.data, host, sizeof(*host));
}

void OptimizerStep::update(Stream& stream) {
  for (const Parameter& parameter : parameters_.parameters()) {
    if (parameter.shared) continue;
    math::AdamWConstants constants;
    constants.beta1 = static_cast<float>(section_.beta1);
    constants.beta2 = static_cast<float>(section_.beta2);
    constants.epsilon = static_cast<float>(section_.epsilon);
    constants.weight_decay = parameter.spec.decay ? static_cast<float>(section_.weight_decay) : 0.0F;
    const auto flat = [](Tensor tensor) { return tensor.view(Shape{tensor.elements()}); };
    const bool copied = parameter.compute.data != parameter.master.data;
    math_.optimizer->adamw(stream, flat(parameter.master), flat(parameter.gradient), flat(parameter.moment1),
                           flat(parameter.moment2), copied ? flat(parameter.compute) : Tensor(), constants,
                           scalars());
  }
}

void OptimizerStep::finish(Stream& stream) {
  if (received_tied_)
    throw UsageError("the tied weight's other half is on another rank: exchange the gradients first");
  add_tied(stream);
  squares(stream);
  norm(stream);
  update(stream);
}

}  // namespace penstock::model
