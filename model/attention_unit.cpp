#include "model/attention_unit.h"

#include <fmt/format.h>

namespace penstock::model {

using Id = SlotTensorId;

namespace {

std::string prefix(const UnitContext& context, int index) {
  return fmt::format("layers.{}.attention.", unit_at(context.config.model, index).layer);
}

}  // namespace

AttentionUnit::AttentionUnit(const UnitContext& context, int index, RecomputeMode mode)
    : math_(context.math),
      attention_(context.sites.attention.get()),
      cached_(context.sites.cached_attention.get()),
      mode_(mode),
      heads_(context.config.model.heads),
      kv_heads_(context.config.model.kv_heads),
      head_dim_(context.config.model.head_dim),
      epsilon_(static_cast<float>(context.config.model.norm_epsilon)),
      rope_table_(context.rope_table),
      workspace_(context.plan_workspace),
      norm_(context, index, prefix(context, index) + "norm"),
      qkv_(context, *context.sites.qkv, index, prefix(context, index) + "qkv"),
      out_(context, *context.sites.attention_out, index, prefix(context, index) + "out"),
      join_(context, index) {
  if (cached_ != nullptr)
    cache_ = (*context.caches)[static_cast<size_t>(unit_at(context.config.model, index).layer)];
  if (context.config.model.qk_norm) {
    const Parameter& q = context.parameters.find(index, prefix(context, index) + "q_norm.weight");
    const Parameter& k = context.parameters.find(index, prefix(context, index) + "k_norm.weight");
    q_norm_ = context.parameters.weights(q);
    d_q_norm_ = context.parameters.accumulator(q);
    k_norm_ = context.parameters.weights(k);
    d_k_norm_ = context.parameters.accumulator(k);
  }
}

Tensor AttentionUnit::heads(const SlotView& slot) const {
  return q_norm_ ? slot[Id::heads] : slot[Id::projected];
}

void AttentionUnit::rotate(Stream& stream, Tensor heads, const MicroBatch& batch, bool inverse) const {
  if (!rope_table_) return;
  math_.pointwise->rope(stream, heads, batch.band.positions, rope_table_, heads_ + kv_heads_, head_dim_,
                        inverse);
}

void AttentionUnit::normalise_heads(Stream& stream, const SlotView& slot) const {
  math_.norm->head_norm_forward(stream, slot[Id::projected], q_norm_, k_norm_, epsilon_, heads_, kv_heads_,
                                slot[Id::heads], slot[Id::head_rstd]);
}

void AttentionUnit::attend(Stream& stream, const SlotView& slot, const MicroBatch& batch) const {
  if (cached_ != nullptr) {
    cached_->forward(stream, heads(slot), batch.slots, batch.band.positions, cache_.keys, cache_.values,
                     slot[Id::attended], workspace_);
  } else {
    attention_->forward(stream, heads(slot), batch.band.starts, slot[Id::attended], slot[Id::log_sum_exp],
                        workspace_);
  }
}

void AttentionUnit::interior(Stream& stream, const SlotView& slot, const MicroBatch& batch) const {
  norm_.forward(stream, slot);
  qkv_.forward(stream, slot[Id::norm_output], slot[Id::projected]);
  if (q_norm_) normalise_heads(stream, slot);
  rotate(stream, heads(slot), batch, false);
  attend(stream, slot, batch);
}

void AttentionUnit::forward(Stream& stream, const SlotView& slot, const MicroBatch& batch, Tensor output) {
  interior(stream, slot, batch);
  out_.forward(stream, slot[Id::attended], output);
  join_.forward(stream, slot, batch, output);
}

void AttentionUnit::recompute(Stream& stream, const SlotView& slot, const MicroBatch& batch) {
  if (mode_ == RecomputeMode::full) {
    interior(stream, slot, batch);
  } else if (mode_ == RecomputeMode::selective) {
    norm_.forward(stream, slot);
    if (q_norm_) {
      normalise_heads(stream, slot);
      rotate(stream, heads(slot), batch, false);
    }
  }
}

void AttentionUnit::backward_input(Stream& stream, const SlotView& slot, const MicroBatch& batch,
                                   Tensor d_input) {
  out_.backward_input(stream, join_.backward(stream, slot, batch), slot[Id::d_attended]);
  const Tensor d_heads = slot[Id::d_projected];
  attention_->backward(stream, slot[Id::d_attended], heads(slot), batch.band.starts, slot[Id::attended],
                       slot[Id::log_sum_exp], d_heads, workspace_);
  rotate(stream, d_heads, batch, true);
  if (q_norm_) {
    math_.norm->head_norm_backward(stream, d_heads, slot[Id::projected], q_norm_, k_norm_,
                                   slot[Id::head_rstd], heads_, kv_heads_, d_q_norm_, d_k_norm_);
  }
  qkv_.backward_input(stream, slot[Id::d_projected], slot[Id::d_norm_output]);
  norm_.backward(stream, slot, slot[Id::d_output], d_input);
}

void AttentionUnit::backward_weight(Stream& stream, const SlotView& slot) {
  out_.backward_weight(stream, join_.d_branch(slot), slot[Id::attended]);
  qkv_.backward_weight(stream, slot[Id::d_projected], slot[Id::norm_output]);
}

}  // namespace penstock::model
