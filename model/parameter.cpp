#include "model/parameter.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace penstock::model {

namespace {

class Lister {
 public:
  explicit Lister(const ModelSection& model)
      : model_(model),
        residual_stddev_(model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers))) {}

  void matrix(std::string name, int64_t out, int64_t in, double stddev) {
    ParameterSpec spec = whole(std::move(name), Shape{out, in});
    spec.decay = true;
    spec.initial = InitialValue::normal;
    spec.stddev = stddev;
    spec.compute_copy = true;
    specs_.push_back(std::move(spec));
  }
  void vocabulary(std::string name, bool tied) {
    matrix(std::move(name), model_.padded_vocab_size(), model_.hidden_size, model_.init_std);
    specs_.back().vocab_rows = model_.vocab_size;
    specs_.back().tied = tied;
  }
  void vector(std::string name, int64_t size, InitialValue initial) {
    ParameterSpec spec = whole(std::move(name), Shape{size});
    spec.initial = initial;
    specs_.push_back(std::move(spec));
  }
  void norm(const std::string& prefix) {
    vector(prefix + ".weight", model_.hidden_size, InitialValue::one);
    if (model_.family == Family::gpt2) vector(prefix + ".bias", model_.hidden_size, InitialValue::zero);
  }
  void linear(const std::string& prefix, int64_t out, int64_t in, bool bias, bool residual) {
    matrix(prefix + ".weight", out, in, residual ? residual_stddev_ : model_.init_std);
    specs_.back().in_weight_half = true;
    if (bias) vector(prefix + ".bias", out, InitialValue::zero);
  }

  std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  static ParameterSpec whole(std::string name, Shape shape) {
    ParameterSpec spec;
    spec.name = std::move(name);
    spec.shape = shape;
    spec.slice = {0, shape.elements()};
    return spec;
  }

  const ModelSection& model_;
  double residual_stddev_;
  std::vector<ParameterSpec> specs_;
};

}  // namespace

std::vector<ParameterSpec> unit_parameters(const ModelSection& model, UnitId unit) {
  Lister list(model);
  const bool gpt2 = model.family == Family::gpt2;
  const std::string layer = fmt::format("layers.{}.", unit.layer);
  switch (unit.kind) {
    case UnitKind::embedding:
      list.vocabulary("embedding.token.weight", false);
      if (gpt2)
        list.matrix("embedding.position.weight", model.sequence_length, model.hidden_size, model.init_std);
      break;
    case UnitKind::attention:
      list.norm(layer + "attention.norm");
      list.linear(layer + "attention.qkv", (model.heads + 2 * model.kv_heads) * model.head_dim,
                  model.hidden_size, model.qkv_bias, false);
      if (model.qk_norm) {
        list.vector(layer + "attention.q_norm.weight", model.head_dim, InitialValue::one);
        list.vector(layer + "attention.k_norm.weight", model.head_dim, InitialValue::one);
      }
      list.linear(layer + "attention.out", model.hidden_size, model.heads * model.head_dim, gpt2, true);
      break;
    case UnitKind::mlp:
      list.norm(layer + "mlp.norm");
      if (gpt2) {
        list.linear(layer + "mlp.up", model.ffn_hidden_size, model.hidden_size, true, false);
      } else {
        list.linear(layer + "mlp.gate_up", 2 * model.ffn_hidden_size, model.hidden_size, false, false);
      }
      list.linear(layer + "mlp.down", model.hidden_size, model.ffn_hidden_size, gpt2, true);
      break;
    case UnitKind::head:
      list.norm("head.norm");
      list.vocabulary(model.tie_embeddings ? "embedding.token.weight" : "head.weight", model.tie_embeddings);
      break;
  }
  return list.take();
}

std::vector<ParameterSpec> model_parameters(const ModelSection& model) {
  std::vector<ParameterSpec> all;
  for (int unit = 0; unit < unit_count(model); ++unit) {
    for (ParameterSpec& spec : unit_parameters(model, unit_at(model, unit))) {
      if (!spec.tied) all.push_back(std::move(spec));
    }
  }
  return all;
}

int64_t parameter_count(const ModelSection& model) {
  int64_t count = 0;
  for (const ParameterSpec& spec : model_parameters(model)) {
    count += spec.vocab_rows < 0 ? spec.shape.elements() : spec.vocab_rows * spec.shape[1];
  }
  return count;
}

}  // namespace penstock::model
