#include "trainer/hugging_face/tensor_map.h"

#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/parameter.h"

namespace penstock::hugging_face {
namespace {

// "layers.3.attention.qkv.weight" is layer 3, "attention.qkv.weight".
struct LayerName {
  int64_t layer = -1;
  std::string rest;
};

LayerName split(const std::string& name) {
  constexpr std::string_view beginning = "layers.";
  if (name.rfind(beginning, 0) != 0) return {-1, name};
  const size_t dot = name.find('.', beginning.size());
  return {std::stoll(name.substr(beginning.size(), dot - beginning.size())), name.substr(dot + 1)};
}

// "weight" or "bias".
std::string ending(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

std::string stem(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

class Mapper {
 public:
  Mapper(const ModelSection& model, Architecture architecture)
      : model_(model), architecture_(architecture), prefix_(name_prefix(architecture)) {}

  std::vector<Part> parts_of(const model::ParameterSpec& spec) const {
    const int64_t rows = spec.vocab_rows < 0 ? spec.shape[0] : spec.vocab_rows;
    if (spec.name == "head.weight") return {matrix(head_name, rows)};
    const LayerName name = split(spec.name);
    return architecture_ == Architecture::gpt2 ? gpt2(spec, name, rows) : llama(spec, name, rows);
  }

  std::vector<Part> zeros() const {
    std::vector<Part> biases;
    for (int64_t layer = 0; layer < model_.layers; ++layer) {
      if (architecture_ == Architecture::gpt2 && !model_.qkv_bias) {
        biases.push_back(
            vector(fmt::format("{}h.{}.attn.c_attn.bias", prefix_, layer), 3 * model_.hidden_size));
      }
      if (model_.qkv_bias && (architecture_ == Architecture::llama || architecture_ == Architecture::qwen3)) {
        biases.push_back(
            vector(fmt::format("{}layers.{}.self_attn.o_proj.bias", prefix_, layer), model_.hidden_size));
      }
    }
    return biases;
  }

 private:
  static Part vector(std::string name, int64_t size) {
    Part part;
    part.name = std::move(name);
    part.rows = size;
    part.is_vector = true;
    return part;
  }
  Part matrix(std::string name, int64_t rows) const {
    return matrix(std::move(name), rows, model_.hidden_size);
  }
  static Part matrix(std::string name, int64_t rows, int64_t columns) {
    Part part;
    part.name = std::move(name);
    part.rows = rows;
    part.columns = columns;
    return part;
  }
  static Part part(const model::ParameterSpec& spec, std::string name, int64_t rows) {
    return spec.shape.rank == 1 ? vector(std::move(name), rows)
                                : matrix(std::move(name), rows, spec.shape[1]);
  }

  std::vector<Part> gpt2(const model::ParameterSpec& spec, const LayerName& name, int64_t rows) const {
    if (spec.name == "embedding.token.weight") return {matrix(embedding_name(architecture_), rows)};
    if (spec.name == "embedding.position.weight") return {matrix(prefix_ + "wpe.weight", rows)};
    if (name.layer < 0) return {vector(prefix_ + "ln_f." + ending(spec.name), rows)};
    const std::string what = stem(name.rest);
    const char* theirs = what == "attention.norm"  ? "ln_1"
                         : what == "attention.qkv" ? "attn.c_attn"
                         : what == "attention.out" ? "attn.c_proj"
                         : what == "mlp.norm"      ? "ln_2"
                         : what == "mlp.up"        ? "mlp.c_fc"
                         : what == "mlp.down"      ? "mlp.c_proj"
                                                   : nullptr;
    if (theirs == nullptr) throw UsageError("no GPT-2 tensor for parameter " + spec.name);
    Part mapped =
        part(spec, fmt::format("{}h.{}.{}.{}", prefix_, name.layer, theirs, ending(spec.name)), rows);
    mapped.transposed = !mapped.is_vector;
    return {mapped};
  }

  std::vector<Part> llama(const model::ParameterSpec& spec, const LayerName& name, int64_t rows) const {
    if (spec.name == "embedding.token.weight") return {matrix(embedding_name(architecture_), rows)};
    if (name.layer < 0) return {vector(prefix_ + "norm.weight", rows)};
    const std::string what = stem(name.rest);
    const std::string layer = fmt::format("{}layers.{}.", prefix_, name.layer);
    const auto one = [&](const std::string& theirs, int64_t count) {
      return part(spec, layer + theirs + "." + ending(spec.name), count);
    };
    if (what == "attention.norm") return {one("input_layernorm", rows)};
    if (what == "attention.qkv") {
      const int64_t keys = model_.kv_heads * model_.head_dim;
      return {one("self_attn.q_proj", model_.heads * model_.head_dim), one("self_attn.k_proj", keys),
              one("self_attn.v_proj", keys)};
    }
    if (what == "attention.q_norm") return {one("self_attn.q_norm", rows)};
    if (what == "attention.k_norm") return {one("self_attn.k_norm", rows)};
    if (what == "attention.out") return {one("self_attn.o_proj", rows)};
    if (what == "mlp.norm") return {one("post_attention_layernorm", rows)};
    if (what == "mlp.gate_up") {
      return {one("mlp.gate_proj", model_.ffn_hidden_size), one("mlp.up_proj", model_.ffn_hidden_size)};
    }
    if (what == "mlp.down") return {one("mlp.down_proj", rows)};
    throw UsageError("no Llama tensor for parameter " + spec.name);
  }

  const ModelSection& model_;
  Architecture architecture_;
  std::string prefix_;
};

}  // namespace

std::vector<uint64_t> Part::stored_shape() const {
  if (is_vector) return {static_cast<uint64_t>(rows)};
  const auto first = static_cast<uint64_t>(transposed ? columns : rows);
  const auto second = static_cast<uint64_t>(transposed ? rows : columns);
  return {first, second};
}

const char* embedding_name(Architecture architecture) {
  return architecture == Architecture::gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
}

const char* name_prefix(Architecture architecture) {
  return architecture == Architecture::gpt2 ? "transformer." : "model.";
}

TensorMap tensor_map(const ModelSection& model, Architecture architecture) {
  const Mapper mapper(model, architecture);
  TensorMap map;
  for (const model::ParameterSpec& spec : model::model_parameters(model)) {
    map.parameters.push_back({spec.name, spec.shape.elements(), mapper.parts_of(spec)});
  }
  map.zeros = mapper.zeros();
  return map;
}

}  // namespace penstock::hugging_face
