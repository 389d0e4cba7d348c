// config.json: what is read, and what is refused by its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/hugging_face/hf_folder.h"
#include "trainer/hugging_face/read_config.h"

namespace penstock::hugging_face {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Config : HuggingFaceTest {
  ModelConfig read(const std::string& name, const json& changes,
                   const std::set<std::string>& ignored = {}) const {
    const fs::path path = root / "config.json";
    json object = json_in(fixture(name) / "config.json");
    object.update(changes);
    std::ofstream(path) << object.dump(2);
    return read_config(path.string(), ignored);
  }
  std::string refused(const std::string& name, const json& changes) const {
    return tests::message_of<data::DataError>([&] { read(name, changes); });
  }
};

TEST_F(Config, Gpt2) {
  const ModelConfig config = read("gpt2", {{"resid_pdrop", 0.25}, {"embd_pdrop", 0.25}});
  const ModelSection& model = config.model;
  EXPECT_EQ(config.architecture, Architecture::gpt2);
  EXPECT_EQ(model.family, Family::gpt2);
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.hidden_size, 24);
  EXPECT_EQ(model.heads, 3);
  EXPECT_EQ(model.kv_heads, 3);
  EXPECT_EQ(model.head_dim, 8);
  EXPECT_EQ(model.ffn_hidden_size, 40);
  EXPECT_EQ(model.sequence_length, 32);
  EXPECT_EQ(model.vocab_size, 61);
  EXPECT_EQ(model.norm_epsilon, 2e-5);
  EXPECT_EQ(model.dropout, 0.25);
  EXPECT_TRUE(model.tie_embeddings);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_THAT(config.notes, testing::ElementsAre(HasSubstr("attn_pdrop = 0.1")));
  EXPECT_EQ(read("gpt2", {{"n_inner", nullptr}}).model.ffn_hidden_size, 96);
  EXPECT_EQ(read("gpt2", {{"embd_pdrop", 0.0}}).model.dropout, 0.0) << "two differ: neither is taken";
}

TEST_F(Config, RopeOfBothGenerationsOfTransformers) {
  const json scaling{{"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 24}};
  json newer = scaling;
  newer.update({{"rope_type", "llama3"}, {"rope_theta", 100.0}});
  json older = scaling;
  older["rope_type"] = "llama3";
  const ModelSection a = read("llama-scaled", {{"rope_parameters", newer}}).model;
  const ModelSection b =
      read("llama-scaled", {{"rope_parameters", nullptr}, {"rope_theta", 100.0}, {"rope_scaling", older}})
          .model;
  EXPECT_EQ(a, b);
  ASSERT_TRUE(a.rope_scaling);
  EXPECT_EQ(a.rope_theta, 100.0);
  EXPECT_EQ(*a.rope_scaling, (RopeScaling{RopeScalingType::llama3, 8.0, 1.0, 4.0, 24}));
  const json linear{{"type", "linear"}, {"factor", 2.0}};  // as transformers 4.30 wrote it
  const ModelSection c = read("llama", {{"rope_parameters", nullptr}, {"rope_scaling", linear}}).model;
  ASSERT_TRUE(c.rope_scaling);
  EXPECT_EQ(c.rope_scaling->type, RopeScalingType::linear);
  EXPECT_EQ(c.rope_scaling->factor, 2.0);
  EXPECT_EQ(c.rope_theta, 10000.0);
  EXPECT_FALSE(read("llama", {{"rope_parameters", {{"rope_type", "default"}}}}).model.rope_scaling);
}

TEST_F(Config, WhatIsLeftOutIsTransformersDefault) {
  const ModelSection model = read("llama", {{"num_key_value_heads", nullptr},
                                            {"head_dim", nullptr},
                                            {"rms_norm_eps", nullptr},
                                            {"rope_parameters", nullptr},
                                            {"attention_bias", nullptr},
                                            {"tie_word_embeddings", nullptr}})
                                 .model;
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.head_dim, 6);
  EXPECT_EQ(model.norm_epsilon, 1e-6);
  EXPECT_EQ(model.rope_theta, 10000.0);
  EXPECT_FALSE(model.qkv_bias);
  EXPECT_FALSE(model.tie_embeddings);
  EXPECT_EQ(read("qwen3", {{"head_dim", nullptr}}).model.head_dim, 128);
  EXPECT_TRUE(read("qwen3", json::object()).model.qk_norm);
  EXPECT_TRUE(read("qwen2", json::object()).model.qkv_bias);
  EXPECT_TRUE(read("qwen3", {{"attention_bias", true}}).model.qkv_bias);
}

TEST_F(Config, OtherModelsAreRefusedByTheFieldThatMakesThemOthers) {
  const std::vector<std::tuple<const char*, json, const char*>> cases{
      {"llama",
       {{"model_type", "mixtral"}},
       "model_type = \"mixtral\": supported: gpt2, llama, qwen2, qwen3"},
      {"gpt2", {{"activation_function", "relu"}}, "activation_function = \"relu\": supported: \"gelu_new\""},
      {"gpt2", {{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx = true"},
      {"gpt2", {{"scale_attn_weights", false}}, "scale_attn_weights = false: supported: true"},
      {"gpt2", {{"add_cross_attention", true}}, "add_cross_attention = true: supported: false"},
      {"gpt2", {{"n_embd", 25}}, "n_embd = 25: no multiple of 3 heads"},
      {"llama", {{"hidden_act", "gelu"}}, "hidden_act = \"gelu\": supported: \"silu\""},
      {"llama", {{"mlp_bias", true}}, "mlp_bias = true: supported: false"},
      {"llama", {{"sliding_window", 4096}}, "sliding_window = 4096"},
      {"llama", {{"num_key_value_heads", 3}}, "num_key_value_heads = 3: does not divide 4 heads"},
      {"llama", {{"head_dim", 7}}, "head_dim = 7: heads of 7 channels"},
      {"llama", {{"num_local_experts", 8}}, "num_local_experts = 8: not known to be harmless"},
      {"llama", {{"quantization_config", {{"bits", 4}}}}, "quantization_config = {\"bits\":4}"},
      {"llama",
       {{"num_hidden_layers", 65537}},
       "num_hidden_layers = 65537: expected a whole number from 1 to 65536"},
      {"llama", {{"hidden_size", 1e30}}, "hidden_size = 1e+30: expected a whole number from 1 to 16777216"},
      {"llama",
       {{"vocab_size", 18446744073709551615U}},
       "vocab_size = 18446744073709551615: expected a whole"},
      {"llama", {{"vocab_size", 0}}, "vocab_size = 0: expected a whole number"},
      {"llama", {{"rms_norm_eps", "small"}}, "rms_norm_eps = \"small\": expected a number"},
      {"llama", {{"tie_word_embeddings", 1}}, "tie_word_embeddings = 1: expected true or false"},
      {"llama", {{"intermediate_size", nullptr}}, "intermediate_size = null: expected a whole number"},
      {"llama", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor = 0.5: supported: 1.0"},
      {"llama",
       {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}}}},
       "rope_parameters.rope_type = \"yarn\": supported: \"default\", \"linear\", \"llama3\""},
      {"llama", {{"rope_parameters", {{"rope_type", "linear"}}}}, "rope_parameters.factor = (missing)"},
      {"llama",
       {{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}},
       "rope_parameters.full_attention"},
      {"llama", {{"rope_scaling", {{"rope_type", "default"}}}}, "rope_scaling = {\"rope_type\":\"default\"}"},
      {"qwen2", {{"use_sliding_window", true}}, "use_sliding_window = true: supported: false"},
      {"qwen2", {{"layer_types", {"full_attention", "sliding_attention"}}}, "supported: \"full_attention\""},
      {"qwen2", {{"num_key_value_heads", nullptr}}, "num_key_value_heads = null"},
  };
  for (const auto& [name, changes, words] : cases)
    EXPECT_THAT(refused(name, changes), HasSubstr(words)) << words;
}

TEST_F(Config, AllIsSaidAtOnceAndOnlyTheWrong) {
  const std::string text = refused("llama", {{"hidden_act", "relu"}, {"mlp_bias", true}, {"new_field", 3}});
  EXPECT_THAT(text, HasSubstr("hidden_act"));
  EXPECT_THAT(text, HasSubstr("mlp_bias"));
  EXPECT_THAT(text, HasSubstr("new_field = 3"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '='), 3) << text;
}

TEST_F(Config, AFieldIsPassedOverOnRequest) {
  EXPECT_THAT(refused("llama", {{"new_field", 3}}), HasSubstr("--ignore NAME"));
  EXPECT_EQ(read("llama", {{"new_field", 3}}, {"new_field"}).model, read("llama", json::object()).model);
  EXPECT_EQ(read("llama", {{"new_field", nullptr}}).model, read("llama", json::object()).model)
      << "null is absent";
}

TEST_F(Config, WhatIsNoJsonIsSaidWithItsPlace) {
  std::ofstream(root / "config.json") << "{\"model_type\": ";
  EXPECT_THAT(tests::message_of<data::DataError>([&] { read_config((root / "config.json").string(), {}); }),
              HasSubstr("line 1, column 16"));
}

}  // namespace
}  // namespace penstock::hugging_face
