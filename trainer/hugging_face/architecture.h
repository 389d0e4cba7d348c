#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "model/model_section.h"

namespace penstock::hugging_face {

/// The classes of `transformers` that a model can be written as and read from.
enum class Architecture : uint8_t { gpt2, llama, qwen2, qwen3 };

/// What config.json calls them in `model_type`.
inline constexpr std::array<std::pair<std::string_view, Architecture>, 4> architecture_names{
    {{"gpt2", Architecture::gpt2},
     {"llama", Architecture::llama},
     {"qwen2", Architecture::qwen2},
     {"qwen3", Architecture::qwen3}}};
std::string_view model_type(Architecture architecture);
/// "LlamaForCausalLM".
std::string_view class_name(Architecture architecture);

/// The class that computes this model: gpt2 for the family of that name; of the other, qwen3 with QK norm,
/// qwen2 with biases on queries, keys and values, else llama.
Architecture architecture_of(const ModelSection& model);

}  // namespace penstock::hugging_face
