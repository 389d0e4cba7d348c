#include "trainer/hugging_face/read_config.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/data_error.h"
#include "trainer/hugging_face/config_fields.h"
#include "trainer/hugging_face/read_json.h"

namespace penstock::hugging_face {
namespace {

using nlohmann::json;

// A job's limits: with them no product of sizes overflows.
constexpr int64_t most_heads = 65536;  // and layers, and channels of a head
constexpr int64_t most_channels = int64_t{1} << 24;

// Names of files, types and tokens, how text is generated, what is computed besides the logits, and switches
// of speed and memory.
const std::set<std::string>& harmless() {
  static const std::set<std::string> names{"_attn_implementation",
                                           "_commit_hash",
                                           "_name_or_path",
                                           "architectures",
                                           "bad_words_ids",
                                           "begin_suppress_tokens",
                                           "bos_token_id",
                                           "decoder_start_token_id",
                                           "diversity_penalty",
                                           "do_sample",
                                           "dtype",
                                           "early_stopping",
                                           "encoder_no_repeat_ngram_size",
                                           "eos_token_id",
                                           "exponential_decay_length_penalty",
                                           "finetuning_task",
                                           "forced_bos_token_id",
                                           "forced_eos_token_id",
                                           "gradient_checkpointing",
                                           "id2label",
                                           "is_encoder_decoder",
                                           "keys_to_ignore_at_inference",
                                           "label2id",
                                           "length_penalty",
                                           "max_length",
                                           "min_length",
                                           "n_ctx",
                                           "no_repeat_ngram_size",
                                           "num_beam_groups",
                                           "num_beams",
                                           "num_return_sequences",
                                           "output_attentions",
                                           "output_hidden_states",
                                           "output_scores",
                                           "pad_token_id",
                                           "prefix",
                                           "pretraining_tp",
                                           "problem_type",
                                           "remove_invalid_values",
                                           "reorder_and_upcast_attn",
                                           "repetition_penalty",
                                           "return_dict",
                                           "return_dict_in_generate",
                                           "sep_token_id",
                                           "summary_activation",
                                           "summary_first_dropout",
                                           "summary_proj_to_labels",
                                           "summary_type",
                                           "summary_use_proj",
                                           "suppress_tokens",
                                           "task_specific_params",
                                           "temperature",
                                           "tie_encoder_decoder",
                                           "tokenizer_class",
                                           "top_k",
                                           "top_p",
                                           "torch_dtype",
                                           "torchscript",
                                           "transformers_version",
                                           "typical_p",
                                           "unsloth_version",
                                           "use_bfloat16",
                                           "use_cache"};
  return names;
}

class Reader {
 public:
  Reader(const json& object, const std::string& path) : path_(path), fields_(object, "", problems_) {}

  ModelConfig read(const std::set<std::string>& ignored) {
    fields_.ignore(harmless());
    fields_.ignore(ignored);
    const std::string type = fields_.text("model_type", "");
    const auto* const named = std::find_if(architecture_names.begin(), architecture_names.end(),
                                           [&](const auto& entry) { return entry.first == type; });
    if (named == architecture_names.end()) {
      std::string names;
      for (const auto& [name, architecture] : architecture_names)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
      fields_.refuse("model_type", "supported: " + names);
      refuse_if_any();
    }
    config_.architecture = named->second;
    // These would be layers of other kinds, whatever the class.
    fields_.only("chunk_size_feed_forward", {0});
    fields_.only("add_cross_attention", {false});
    fields_.only("is_decoder", {false, true});
    fields_.only("cross_attention_hidden_size", {});
    fields_.only("pruned_heads", {json::object()});
    fields_.only("quantization_config", {});
    if (config_.architecture == Architecture::gpt2) {
      read_gpt2();
    } else {
      read_llama();
    }
    fields_.refuse_the_rest();
    refuse_if_any();
    return std::move(config_);
  }

 private:
  void refuse_if_any() const {
    if (problems_.empty()) return;
    throw data::DataError(
        fmt::format("{}: this model cannot be read:\n  {}\n(--ignore NAME passes a field over that does not "
                    "change what the "
                    "model computes)",
                    path_, fmt::join(problems_, "\n  ")));
  }

  void read_gpt2() {
    ModelSection& model = config_.model;
    model.family = Family::gpt2;
    model.layers = fields_.count("n_layer", most_heads);
    model.hidden_size = fields_.count("n_embd", most_channels);
    model.heads = model.kv_heads = fields_.count("n_head", most_heads);
    model.ffn_hidden_size = fields_.count("n_inner", most_channels, 4 * model.hidden_size);
    model.sequence_length = fields_.count("n_positions", most_channels);
    model.vocab_size = fields_.count("vocab_size", most_channels);
    model.norm_epsilon = fields_.number("layer_norm_epsilon", 1e-5);
    model.init_std = fields_.number("initializer_range", 0.02);
    model.tie_embeddings = fields_.boolean("tie_word_embeddings", true);
    model.qkv_bias = true;
    fields_.only("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
    fields_.only("scale_attn_weights", {true});
    fields_.only("scale_attn_by_inverse_layer_idx", {false});
    const double branch = fields_.probability("resid_pdrop", 0.1);
    const double embedding = fields_.probability("embd_pdrop", 0.1);
    const double attention = fields_.probability("attn_pdrop", 0.1);
    model.dropout = branch == embedding ? branch : 0.0;
    if (branch != embedding) {
      note(fmt::format("resid_pdrop = {} and embd_pdrop = {} differ: model.dropout is 0", branch, embedding));
    }
    if (attention > 0) note(fmt::format("attn_pdrop = {}: attention has no dropout here", attention));
    derive_head_dim();
  }

  void read_llama() {
    const bool qwen =
        config_.architecture == Architecture::qwen2 || config_.architecture == Architecture::qwen3;
    ModelSection& model = config_.model;
    model.family = Family::llama;
    model.layers = fields_.count("num_hidden_layers", most_heads);
    model.hidden_size = fields_.count("hidden_size", most_channels);
    model.heads = fields_.count("num_attention_heads", most_heads);
    model.kv_heads = qwen ? fields_.count("num_key_value_heads", most_heads)
                          : fields_.count("num_key_value_heads", most_heads, model.heads);
    model.ffn_hidden_size = fields_.count("intermediate_size", most_channels);
    model.sequence_length = fields_.count("max_position_embeddings", most_channels);
    model.vocab_size = fields_.count("vocab_size", most_channels);
    model.norm_epsilon = fields_.number("rms_norm_eps", 1e-6);
    model.init_std = fields_.number("initializer_range", 0.02);
    model.tie_embeddings = fields_.boolean("tie_word_embeddings", false);
    fields_.only("hidden_act", {"silu", "swish"});
    fields_.only("mlp_bias", {false});
    read_layer_types();
    if (config_.architecture == Architecture::qwen2) {
      model.qkv_bias = true;
    } else {
      model.qkv_bias = fields_.boolean("attention_bias", false);
    }
    model.qk_norm = config_.architecture == Architecture::qwen3;
    if (fields_.has("head_dim")) {
      model.head_dim = fields_.count("head_dim", most_heads);
    } else if (config_.architecture == Architecture::qwen3) {
      model.head_dim = 128;
    } else {
      derive_head_dim();
    }
    fields_.take("head_dim");
    check_heads();
    if (const double attention = fields_.probability("attention_dropout", 0.0); attention > 0)
      note(fmt::format("attention_dropout = {}: attention has no dropout here", attention));
    read_rope();
  }

  // Windows of attention: transformers 4 says them in sliding_window, 5 also a kind for each layer.
  void read_layer_types() {
    if (fields_.boolean("use_sliding_window", false)) {
      fields_.refuse("use_sliding_window", "supported: false (every layer attends to all that is before)");
    }
    // Without use_sliding_window both are written, and mean nothing.
    if (config_.architecture == Architecture::llama) {
      fields_.only("sliding_window", {});
    } else {
      fields_.ignore({"sliding_window", "max_window_layers"});
    }
    const json* types = fields_.take("layer_types");
    if (types == nullptr) return;
    const bool full = types->is_array() && std::all_of(types->begin(), types->end(), [](const json& type) {
                        return type == "full_attention";
                      });
    if (!full) fields_.refuse("layer_types", "supported: \"full_attention\" in every layer");
  }

  void read_rope() {
    ModelSection& model = config_.model;
    fields_.only("partial_rotary_factor", {1.0});
    const bool newer = fields_.has("rope_parameters");
    const std::string name = newer ? "rope_parameters" : "rope_scaling";
    const json* rope = fields_.take(name);
    model.rope_theta = fields_.number("rope_theta", 10000.0);
    if (newer && fields_.has("rope_scaling") && fields_.take("rope_scaling") != nullptr)
      fields_.refuse("rope_scaling", "stands beside rope_parameters; expected one of them");
    fields_.take("rope_scaling");
    if (rope == nullptr) return;
    if (!rope->is_object()) {
      fields_.refuse(name, "expected an object");
      return;
    }
    ConfigFields inner(*rope, name + ".", problems_);
    model.rope_theta = inner.number("rope_theta", model.rope_theta);
    inner.only("partial_rotary_factor", {1.0});
    const std::string type = inner.text("rope_type", inner.text("type", "default"));
    inner.take("type");
    RopeScaling scaling;
    if (type == "linear" || type == "llama3") {
      scaling.factor = inner.number("factor");
      if (scaling.factor < 1) inner.refuse("factor", "expected at least 1");
      if (type == "llama3") {
        scaling.type = RopeScalingType::llama3;
        scaling.low_freq_factor = inner.number("low_freq_factor");
        scaling.high_freq_factor = inner.number("high_freq_factor");
        scaling.original_max_position_embeddings =
            inner.count("original_max_position_embeddings", most_channels);
        if (scaling.low_freq_factor >= scaling.high_freq_factor)
          inner.refuse("low_freq_factor", "expected less than high_freq_factor");
      } else {
        inner.ignore({"original_max_position_embeddings"});  // only llama3 counts from it
      }
      model.rope_scaling = scaling;
    } else if (type != "default") {
      inner.refuse(inner.has("rope_type") ? "rope_type" : "type",
                   "supported: \"default\", \"linear\", \"llama3\"");
      inner.ignore({"factor", "attention_factor", "beta_fast", "beta_slow", "short_factor", "long_factor",
                    "mscale", "mscale_all_dim", "truncate", "original_max_position_embeddings"});
    }
    inner.refuse_the_rest();
  }

  void derive_head_dim() {
    ModelSection& model = config_.model;
    if (model.heads < 1) return;
    model.head_dim = model.hidden_size / model.heads;
    const bool gpt2 = config_.architecture == Architecture::gpt2;
    if (model.hidden_size % model.heads != 0) {
      fields_.refuse(gpt2 ? "n_embd" : "hidden_size", fmt::format("no multiple of {} heads", model.heads));
    } else if (gpt2) {
      check_heads();
    }
  }

  void check_heads() {
    const ModelSection& model = config_.model;
    const bool gpt2 = config_.architecture == Architecture::gpt2;
    if (model.head_dim % 2 != 0) {
      fields_.refuse(gpt2                      ? "n_head"
                     : fields_.has("head_dim") ? "head_dim"
                                               : "num_attention_heads",
                     fmt::format("heads of {} channels; expected an even number", model.head_dim));
    }
    if (model.kv_heads > 0 && model.heads % model.kv_heads != 0)
      fields_.refuse("num_key_value_heads", fmt::format("does not divide {} heads", model.heads));
  }

  void note(std::string text) { config_.notes.push_back(std::move(text)); }

  const std::string& path_;
  std::vector<std::string> problems_;
  ConfigFields fields_;
  ModelConfig config_;
};

}  // namespace

ModelConfig read_config(const std::string& path, const std::set<std::string>& ignored) {
  const json object = read_json(path);
  return Reader(object, path).read(ignored);
}

}  // namespace penstock::hugging_face
