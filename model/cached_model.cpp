#include "model/cached_model.h"

#include <algorithm>
#include <utility>

#include "kernels/device/error.h"
#include "model/rope_table.h"

namespace penstock::model {

using Id = SlotTensorId;

namespace {

int64_t most_rows(const CacheConfig& cache) {
  const std::vector<int64_t> rows = pass_rows(cache);
  return *std::max_element(rows.begin(), rows.end());
}

/// A unit's tensors in a pass; the input alone lies outside the scratch memory.
SlotLayout pass_layout(RankConfig config, int unit, int64_t rows) {
  config.model.sequence_length = 1;
  config.micro_batch = rows;
  return slot_layout(config, unit, RecomputeMode::full);
}

Shape cache_shape(const RankConfig& config, const CacheConfig& cache) {
  return {cache.slots, config.model.kv_heads, cache.positions, config.model.head_dim};
}

bool holds_head(const RankConfig& config) {
  return has_unit(config, unit_count(config.model) - 1);
}

/// Calls visit(unit) for the rank's units, in the order of its stages.
template <class Visit>
void for_each_unit(const RankConfig& config, const Visit& visit) {
  for (const StageConfig& stage : config.stages) {
    for (int unit = stage.begin; unit < stage.end; ++unit) visit(unit);
  }
}

size_t elements(int64_t rows, int64_t columns, DType dtype) {
  return static_cast<size_t>(rows * columns) * size_of(dtype);
}

}  // namespace

MemoryPlan plan_cached_memory(math::Math& math, const RankConfig& config, const CacheConfig& cache) {
  check(config);
  if (!config.forward_only)
    throw UsageError("a model that generates takes no steps: forward_only is not set");
  const int64_t most = most_rows(cache);
  const int64_t hidden = config.model.hidden_size;
  MemoryPlan plan;
  size_t transients = 0;
  bool attends = false;
  const size_t kept = elements(1, cache_shape(config, cache).elements(), config.compute);
  for_each_unit(config, [&](int unit) {
    plan_parameters(config, unit, plan);
    for (const int64_t rows : pass_rows(cache))
      transients = std::max(transients, pass_layout(config, unit, rows).bytes(Pool::transient));
    if (unit_at(config.model, unit).kind != UnitKind::attention) return;
    attends = true;
    plan.add(ArenaTag::activations, unit_piece(config.model, unit, "keys"), kept);
    plan.add(ArenaTag::activations, unit_piece(config.model, unit, "values"), kept);
  });
  for (const char* name : {"rows.tokens", "rows.positions", "rows.slots"})
    plan.add(ArenaTag::activations, name, elements(most, 1, DType::i32));
  for (const char* name : {"hidden.0", "hidden.1"})
    plan.add(ArenaTag::activations, name, elements(most, hidden, config.compute));
  if (wire_dtype(config) != config.compute)
    plan.add(ArenaTag::communication, "wire", elements(most, hidden, wire_dtype(config)));
  plan.add(ArenaTag::communication, "told_tokens", elements(cache.slots, 1, DType::i32));
  if (holds_head(config)) {
    plan.add(ArenaTag::activations, "head.input", elements(cache.slots, hidden, config.compute));
    plan.add(ArenaTag::activations, "logits", elements(cache.slots, config.model.vocab_size, DType::fp32));
  }
  size_t sites = 0;
  for (size_t pass = 0; pass < pass_rows(cache).size(); ++pass)
    sites = std::max(sites, make_pass_sites(math, config, cache, pass).workspace_bytes());
  plan.add(ArenaTag::workspace, "plans", sites);
  plan.add(ArenaTag::workspace, "transients", transients);
  if (config.model.family == Family::llama && attends)
    plan.add(ArenaTag::workspace, "rope_table",
             elements(config.model.sequence_length, config.model.head_dim, DType::fp32));
  return plan;
}

CachedModel::CachedModel(Device& device, math::Math& math, RankConfig config, const CacheConfig& cache)
    : config_(std::move(config)),
      cache_(cache),
      math_(math),
      memory_(device, plan_cached_memory(math, config_, cache)),
      parameters_(memory_, config_),
      caches_(static_cast<size_t>(config_.model.layers)),
      head_layout_(pass_layout(config_, unit_count(config_.model) - 1, cache.slots)) {
  const ModelSection& model = config_.model;
  const int64_t most = most_rows(cache_);
  const auto piece = [&](ArenaTag tag, const char* name, DType dtype, const Shape& shape) {
    return memory_.claim(tag, name, dtype, shape);
  };
  tokens_ = piece(ArenaTag::activations, "rows.tokens", DType::i32, {most});
  positions_ = piece(ArenaTag::activations, "rows.positions", DType::i32, {most});
  slots_ = piece(ArenaTag::activations, "rows.slots", DType::i32, {most});
  hidden_ = {piece(ArenaTag::activations, "hidden.0", config_.compute, {most, model.hidden_size}),
             piece(ArenaTag::activations, "hidden.1", config_.compute, {most, model.hidden_size})};
  if (wire_dtype(config_) != config_.compute)
    wire_ = piece(ArenaTag::communication, "wire", wire_dtype(config_), {most, model.hidden_size});
  told_ = piece(ArenaTag::communication, "told_tokens", DType::i32, {cache_.slots});
  size_t plans = 0;
  size_t transients = 0;
  for (const PlannedAllocation& each : memory_.plan().allocations) {
    if (each.name == "plans") plans = each.bytes;
    if (each.name == "transients") transients = each.bytes;
    if (each.name == "rope_table") {
      rope_table_ = piece(ArenaTag::workspace, "rope_table", DType::fp32,
                          {model.sequence_length, model.head_dim / 2, 2});
    }
  }
  const auto bytes = static_cast<int64_t>(plans);
  Tensor workspace;
  if (plans > 0) workspace = piece(ArenaTag::workspace, "plans", DType::u8, {bytes});
  transients_ = static_cast<char*>(memory_.claim(ArenaTag::workspace, "transients", transients));
  for_each_unit(config_, [&](int unit) {
    if (unit_at(model, unit).kind != UnitKind::attention) return;
    const auto keep = [&](const char* name) {
      return piece(ArenaTag::activations, unit_piece(model, unit, name).c_str(), config_.compute,
                   cache_shape(config_, cache_));
    };
    caches_[static_cast<size_t>(unit_at(model, unit).layer)] = {keep("keys"), keep("values")};
  });
  const std::vector<int64_t> all_rows = pass_rows(cache_);
  passes_.reserve(all_rows.size());  // units know where their call sites lie
  for (const int64_t rows : all_rows) {
    Pass& pass = passes_.emplace_back();
    pass.rows = rows;
    pass.sites = make_pass_sites(math_, config_, cache_, passes_.size() - 1);
    pass.context = std::make_unique<UnitContext>(UnitContext{config_, math_, pass.sites, parameters_, nullptr,
                                                             rope_table_, workspace, transients_, tensor_,
                                                             context_, &caches_});
    make_units(pass);
  }
  if (!holds_head(config_)) return;
  head_input_ =
      piece(ArenaTag::activations, "head.input", config_.compute, {cache_.slots, model.hidden_size});
  logits_ = piece(ArenaTag::activations, "logits", DType::fp32, {cache_.slots, model.vocab_size});
  head_ = std::make_unique<HeadUnit>(*passes_.back().context, unit_count(model) - 1);
}

void CachedModel::make_units(Pass& pass) {
  for_each_unit(config_, [&](int unit) {
    if (unit + 1 == unit_count(config_.model)) return;  // the head has no rows but the slots'
    pass.units.push_back(make_unit(*pass.context, unit, RecomputeMode::none));
    pass.layouts.push_back(pass_layout(config_, unit, pass.rows));
  });
}

void CachedModel::clear_state(Stream& stream) {
  for (const LayerCache& cache : caches_) {
    if (!cache.keys) continue;
    stream.fill_zero(cache.keys.data, cache.keys.bytes());
    stream.fill_zero(cache.values.data, cache.values.bytes());
  }
  if (rope_table_) {
    const std::vector<float> table = rope_table(config_.model);
    stream.copy(rope_table_.data, table.data(), rope_table_.bytes());
    stream.synchronize();  // before the table on the host is gone
  }
  stream.synchronize();
}

void CachedModel::take_rows(Stream& stream, size_t pass, const int32_t* tokens, const int32_t* positions,
                            const int32_t* slots) {
  const size_t bytes = elements(rows(pass), 1, DType::i32);
  stream.copy(tokens_.data, tokens, bytes);
  stream.copy(positions_.data, positions, bytes);
  stream.copy(slots_.data, slots, bytes);
}

SlotView CachedModel::view(const SlotLayout& layout, const Tensor& input) const {
  return layout.view(Phase::forward, {input.data, nullptr, nullptr, transients_});
}

void CachedModel::forward(Stream& stream, size_t pass, size_t index) {
  Pass& at = passes_[pass];
  size_t unit = 0;
  for (size_t before = 0; before < index; ++before)
    unit += static_cast<size_t>(config_.stages[before].end - config_.stages[before].begin);
  const StageConfig& stage = config_.stages[index];
  MicroBatch batch;
  batch.band.tokens = tokens_.rows(0, at.rows);
  batch.band.positions = positions_.rows(0, at.rows);
  batch.slots = slots_.rows(0, at.rows);
  batch.pass = model::Pass::evaluation;
  for (int number = stage.begin; number < stage.end; ++number, ++unit) {
    if (number + 1 == unit_count(config_.model)) break;
    at.units[unit]->forward(stream, view(at.layouts[unit], hidden(pass, current_)), batch,
                            hidden(pass, 1 - current_));
    current_ = 1 - current_;
  }
}

Tensor CachedModel::incoming(size_t pass) const {
  return wire_ ? wire_.rows(0, rows(pass)) : hidden(pass, current_);
}

void CachedModel::arrived(Stream& stream, size_t pass) {
  if (wire_) math_.pointwise->convert(stream, wire_.rows(0, rows(pass)), hidden(pass, current_));
}

Tensor CachedModel::outgoing(Stream& stream, size_t pass) {
  if (!wire_) return hidden(pass, current_);
  const Tensor out = wire_.rows(0, rows(pass));
  math_.pointwise->convert(stream, hidden(pass, current_), out);
  return out;
}

void CachedModel::take_row(Stream& stream, int64_t row, int64_t slot) {
  const Tensor to = head_input_.rows(slot, 1);
  stream.copy(to.data, hidden_[static_cast<size_t>(current_)].rows(row, 1).data, to.bytes());
}

void CachedModel::take_all(Stream& stream) {
  stream.copy(head_input_.data, hidden_[static_cast<size_t>(current_)].data, head_input_.bytes());
}

Tensor CachedModel::logits(Stream& stream, int64_t count) {
  if (!head_) throw UsageError("logits of a rank without a head");
  Tensor out = logits_.rows(0, count);
  head_->logits(stream, view(head_layout_, head_input_), 0, count, out);
  return out;
}

}  // namespace penstock::model
