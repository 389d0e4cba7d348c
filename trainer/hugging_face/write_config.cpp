#include "trainer/hugging_face/write_config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/tokenizer.h"

namespace penstock::hugging_face {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& object) {
  return object.dump(2) + "\n";
}

void add_gpt2(const ModelSection& model, const ConfigFacts& facts, ordered_json& config) {
  if (model.head_dim * model.heads != model.hidden_size) {
    throw data::DataError(fmt::format(
        "the model has {} heads of {} channels and a hidden size of {}; transformers' GPT-2 has no heads of "
        "another width than hidden_size / heads",
        model.heads, model.head_dim, model.hidden_size));
  }
  config["n_layer"] = model.layers;
  config["n_embd"] = model.hidden_size;
  config["n_head"] = model.heads;
  config["n_inner"] = model.ffn_hidden_size;
  config["n_positions"] = facts.positions;
  config["activation_function"] = "gelu_new";
  config["layer_norm_epsilon"] = model.norm_epsilon;
  config["resid_pdrop"] = model.dropout;
  config["embd_pdrop"] = model.dropout;
  config["attn_pdrop"] = 0.0;
}

void add_rope(const ModelSection& model, ordered_json& config) {
  config["rope_theta"] = model.rope_theta;
  config["rope_scaling"] = nullptr;
  if (!model.rope_scaling) return;
  const RopeScaling& scaling = *model.rope_scaling;
  ordered_json rope;
  rope["rope_type"] = scaling.type == RopeScalingType::linear ? "linear" : "llama3";
  rope["factor"] = scaling.factor;
  if (scaling.type == RopeScalingType::llama3) {
    rope["low_freq_factor"] = scaling.low_freq_factor;
    rope["high_freq_factor"] = scaling.high_freq_factor;
    rope["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  config["rope_scaling"] = std::move(rope);
}

void add_llama(const ModelSection& model, Architecture architecture, const ConfigFacts& facts,
               ordered_json& config) {
  config["num_hidden_layers"] = model.layers;
  config["hidden_size"] = model.hidden_size;
  config["intermediate_size"] = model.ffn_hidden_size;
  config["num_attention_heads"] = model.heads;
  config["num_key_value_heads"] = model.kv_heads;
  config["head_dim"] = model.head_dim;
  config["max_position_embeddings"] = facts.positions;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = model.norm_epsilon;
  add_rope(model, config);
  config["attention_dropout"] = 0.0;
  if (architecture == Architecture::llama) config["mlp_bias"] = false;
  if (architecture != Architecture::qwen2) config["attention_bias"] = model.qkv_bias;
  if (architecture != Architecture::llama) config["use_sliding_window"] = false;
}

}  // namespace

std::string config_json(const ModelSection& model, Architecture architecture, const ConfigFacts& facts) {
  ordered_json config;
  config["architectures"] = {class_name(architecture)};
  config["model_type"] = model_type(architecture);
  config["vocab_size"] = model.vocab_size;
  if (architecture == Architecture::gpt2) {
    add_gpt2(model, facts, config);
  } else {
    add_llama(model, architecture, facts, config);
  }
  config["initializer_range"] = model.init_std;
  config["tie_word_embeddings"] = model.tie_embeddings;
  // The classes' own defaults are tokens of other vocabularies.
  for (const char* name : {"bos_token_id", "eos_token_id"}) {
    config[name] = nullptr;
    if (facts.end_of_text) config[name] = *facts.end_of_text;
  }
  config["torch_dtype"] = facts.dtype == DType::bf16 ? "bfloat16" : "float32";
  config["use_cache"] = true;
  return text_of(config);
}

std::string generation_config_json(int32_t end_of_text) {
  ordered_json config;
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"}) config[name] = end_of_text;
  return text_of(config);
}

std::string tokenizer_config_json(const ConfigFacts& facts) {
  ordered_json config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["model_max_length"] = facts.positions;
  config["clean_up_tokenization_spaces"] = false;
  if (facts.end_of_text) {
    for (const char* name : {"bos_token", "eos_token", "pad_token"}) config[name] = data::end_of_text_name;
  }
  return text_of(config);
}

}  // namespace penstock::hugging_face
