#include "parallel/runtime/formula_costs.h"

#include <fmt/format.h>

#include "model/parameter.h"
#include "model/unit_id.h"

namespace penstock::runtime {

using model::UnitKind;

namespace {

// Of one action.
struct Work {
  double flops = 0;  // of products
  double bytes = 0;  // of passes

  Work& operator+=(const Work& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
};

struct UnitWork {
  Work forward;
  Work backward_input;
  Work backward_weight;
  Work recompute_selective;
  Work recompute_full;
};

class Formula {
 public:
  explicit Formula(const model::RankConfig& common)
      : model_(common.model),
        gpt2_(common.model.family == Family::gpt2),
        rows_(static_cast<double>(common.shape().rows())),
        hidden_(static_cast<double>(common.model.hidden_size)),
        inner_(static_cast<double>(common.model.ffn_hidden_size)),
        value_(static_cast<double>(size_of(common.compute))),
        copied_(common.compute != DType::fp32) {}

  UnitWork of(model::UnitId unit) const {
    switch (unit.kind) {
      case UnitKind::embedding:
        return embedding();
      case UnitKind::attention:
        return attention();
      case UnitKind::mlp:
        return mlp();
      case UnitKind::head:
        return head();
    }
    return {};
  }

  Work optimizer(model::UnitId unit) const {
    double bytes = 0;
    for (const model::ParameterSpec& spec : model::unit_parameters(model_, unit)) {
      const double copy = copied_ && spec.compute_copy ? value_ : 0;
      bytes += static_cast<double>(spec.shape.elements()) * (36 + copy);
    }
    return {0, bytes};
  }

 private:
  Work product(double in, double out) const { return {2 * rows_ * in * out, 0}; }
  // `tensors`: how many values of a width pass to or from memory.
  Work pass(double tensors, double width) const { return {0, tensors * rows_ * width * value_}; }
  Work dropout() const { return pass(model_.dropout > 0 ? 2 : 0, hidden_); }
  // Alike for attention and mlp.
  void add_branch(UnitWork& work) const {
    for (Work* made : {&work.forward, &work.recompute_selective, &work.recompute_full})
      *made += pass(2, hidden_);
    work.forward += pass(3, hidden_);
    work.forward += dropout();
    work.backward_input += pass(4, hidden_);
    work.backward_input += dropout();
  }

  UnitWork embedding() const {
    const double tables = gpt2_ ? 1.5 : 1;
    UnitWork work;
    work.forward.bytes = tables * 2 * rows_ * hidden_ * value_;
    work.backward_input.bytes = tables * rows_ * hidden_ * (value_ + 8);
    work.forward += dropout();
    work.backward_input += dropout();
    return work;
  }

  UnitWork attention() const {
    const auto attended = static_cast<double>(model_.heads * model_.head_dim);
    const auto rotated = static_cast<double>((model_.heads + model_.kv_heads) * model_.head_dim);
    const double width = rotated + static_cast<double>(model_.kv_heads * model_.head_dim);
    const double core = 2 * rows_ * attended * static_cast<double>(model_.sequence_length + 1);
    UnitWork work;
    add_branch(work);
    for (Work* made : {&work.forward, &work.recompute_full, &work.backward_input}) {
      *made += product(hidden_, width);
      *made += pass(gpt2_ ? 0 : 2, rotated);
      *made += pass(model_.qk_norm ? 2 : 0, rotated);
    }
    if (model_.qk_norm) work.recompute_selective += pass(4, rotated);
    work.forward += product(attended, hidden_);
    work.forward.flops += core;
    work.recompute_full.flops += core;
    work.backward_input += product(attended, hidden_);
    work.backward_input.flops += 2.5 * core;
    work.backward_weight += product(hidden_, width);
    work.backward_weight += product(attended, hidden_);
    return work;
  }

  UnitWork mlp() const {
    const double width = gpt2_ ? inner_ : 2 * inner_;
    UnitWork work;
    add_branch(work);
    for (Work* made : {&work.forward, &work.recompute_selective, &work.recompute_full})
      *made += pass(gpt2_ ? 2 : 3, inner_);
    work.backward_input += pass(gpt2_ ? 3 : 5, inner_);
    work.recompute_full += product(hidden_, width);
    for (Work* made : {&work.forward, &work.backward_input, &work.backward_weight}) {
      *made += product(hidden_, width);
      *made += product(inner_, hidden_);
    }
    return work;
  }

  UnitWork head() const {
    const auto vocabulary = static_cast<double>(model_.padded_vocab_size());
    UnitWork work;
    work.backward_input.flops = 6 * rows_ * vocabulary * hidden_;
    work.backward_input.bytes = rows_ * vocabulary * (12 + value_);
    work.backward_input += pass(6, hidden_);
    return work;
  }

  const ModelSection& model_;
  bool gpt2_;
  double rows_;
  double hidden_;
  double inner_;
  double value_;
  bool copied_;
};

}  // namespace

DeviceRates nominal_cpu_rates(DType compute, int64_t threads) {
  const auto cores = static_cast<double>(threads);
  return {cores * (compute == DType::bf16 ? 200e9 : 100e9), cores * 12e9};
}

planner::ModelCosts formula_costs(const model::RankConfig& common, const DeviceRates& rates,
                                  planner::ModelCosts counted) {
  const Formula formula(common);
  const auto seconds = [&](const Work& work) {
    return work.flops / rates.matmul_flops + work.bytes / rates.memory_bytes_per_second;
  };
  for (size_t index = 0; index < counted.units.size(); ++index) {
    planner::UnitCosts& unit = counted.units[index];
    const model::UnitId id = model::unit_at(common.model, static_cast<int>(index));
    const UnitWork work = formula.of(id);
    for (planner::ModeCosts& mode : unit.modes) {
      mode.forward = seconds(work.forward);
      mode.backward_input = seconds(work.backward_input);
      mode.backward_weight = seconds(work.backward_weight);
    }
    unit.modes[static_cast<size_t>(planner::Recompute::selective)].recompute =
        seconds(work.recompute_selective);
    unit.modes[static_cast<size_t>(planner::Recompute::full)].recompute = seconds(work.recompute_full);
    unit.optimizer_step = seconds(formula.optimizer(id));
  }
  counted.source = fmt::format("by formula: {:.4g} GFLOP/s of products, {:.4g} GB/s of memory",
                               rates.matmul_flops / 1e9, rates.memory_bytes_per_second / 1e9);
  return counted;
}

}  // namespace penstock::runtime
