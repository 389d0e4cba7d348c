#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace penstock {

enum class Family { gpt2, llama };
inline constexpr std::array<std::pair<std::string_view, Family>, 2> kFamilyNames{
    {{"gpt2", Family::gpt2}, {"llama", Family::llama}}};

enum class RopeScalingType { linear, llama3 };
inline constexpr std::array<std::pair<std::string_view, RopeScalingType>, 2> kRopeScalingTypeNames{
    {{"linear", RopeScalingType::linear}, {"llama3", RopeScalingType::llama3}}};

/// Stretches rotary frequencies for sequences longer than those of an earlier training. The key names are
/// Hugging Face's. `linear` divides every frequency by `factor`; `llama3` only those whose wave length is
/// long.
struct RopeScaling {
  RopeScalingType type = RopeScalingType::linear;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;

  bool operator==(const RopeScaling&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("type", type).one_of(kRopeScalingTypeNames).required().help("which formula");
    v.key("factor", factor).at_least(1).required().help("by how much long wave lengths are stretched");
    v.key("low_freq_factor", low_freq_factor)
        .above(0)
        .help("llama3: wave lengths beyond original / this stretch");
    v.key("high_freq_factor", high_freq_factor)
        .above(0)
        .help("llama3: wave lengths below original / this do not");
    v.key("original_max_position_embeddings", original_max_position_embeddings)
        .at_least(1)
        .help("llama3: the sequence length of the earlier training");
  }
};

/// [model]: the shape of the transformer. After the job is resolved every member is filled; vocab_size alone
/// may be 0, which means the tokenizer's and is filled by whoever opens the tokenizer.
struct ModelSection {
  Family family = Family::gpt2;
  int64_t layers = 0;
  int64_t hidden_size = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn_hidden_size = 0;
  int64_t sequence_length = 0;
  int64_t vocab_size = 0;
  int64_t vocab_pad = 128;
  bool tie_embeddings = false;
  double dropout = 0.0;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling;
  double init_std = 0.02;
  bool qkv_bias = false;
  bool qk_norm = false;

  bool operator==(const ModelSection&) const = default;

  /// Rows of the embedding and the head: vocab_size rounded up to a multiple of vocab_pad.
  int64_t padded_vocab_size() const { return (vocab_size + vocab_pad - 1) / vocab_pad * vocab_pad; }

  template <class Visitor>
  void describe(Visitor& v) {
    constexpr int64_t kCount = int64_t{1} << 24;  // keeps every product of two sizes far from overflow
    v.key("family", family).one_of(kFamilyNames).required().help("the architecture");
    v.key("layers", layers)
        .between(1, 65536)
        .required()
        .help("transformer layers, an attention and an MLP each");
    v.key("hidden_size", hidden_size)
        .between(1, kCount)
        .required()
        .help("width of the residual stream; heads · head_dim unless head_dim is given");
    v.key("heads", heads).between(1, 65536).required().help("query heads");
    v.key("kv_heads", kv_heads)
        .between(1, 65536)
        .derived("heads")
        .help("key/value heads; divides heads (grouped-query attention)");
    v.key("head_dim", head_dim)
        .between(2, 65536)
        .even()
        .derived("hidden_size / heads")
        .help("width of one head");
    v.key("ffn_hidden_size", ffn_hidden_size)
        .between(1, kCount)
        .derived("4 · hidden_size (gpt2); required (llama)")
        .help("inner width of the MLP");
    v.key("sequence_length", sequence_length).between(1, kCount).required().help("tokens of one sample");
    v.key("vocab_size", vocab_size)
        .between(2, kCount)
        .derived("the tokenizer's")
        .help("tokens known to the model; padded to a multiple of vocab_pad");
    v.key("vocab_pad", vocab_pad).between(1, 65536).help("rows of embedding and head are a multiple of this");
    v.key("tie_embeddings", tie_embeddings)
        .derived("true (gpt2), false (llama)")
        .help("embedding and head share one weight");
    v.key("dropout", dropout).at_least(0).below(1).help("probability, after embedding, attention and MLP");
    v.key("norm_epsilon", norm_epsilon).above(0).help("added to the variance in LayerNorm and RMSNorm");
    v.key("rope_theta", rope_theta).above(0).help("base of the rotary frequencies (llama)");
    v.key("rope_scaling", rope_scaling).help("stretches the rotary frequencies (llama)");
    v.key("init_std", init_std).above(0).help("standard deviation of the initial weights");
    v.key("qkv_bias", qkv_bias)
        .derived("true (gpt2), false (llama)")
        .help("biases on the query, key and value projections");
    v.key("qk_norm", qk_norm).help("RMSNorm of queries and keys before the rotation");
  }
};

}  // namespace penstock
