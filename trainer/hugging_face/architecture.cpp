#include "trainer/hugging_face/architecture.h"

namespace penstock::hugging_face {

std::string_view model_type(Architecture architecture) {
  return architecture_names[static_cast<size_t>(architecture)].first;
}

std::string_view class_name(Architecture architecture) {
  switch (architecture) {
    case Architecture::gpt2:
      return "GPT2LMHeadModel";
    case Architecture::llama:
      return "LlamaForCausalLM";
    case Architecture::qwen2:
      return "Qwen2ForCausalLM";
    case Architecture::qwen3:
      return "Qwen3ForCausalLM";
  }
  return "";
}

Architecture architecture_of(const ModelSection& model) {
  if (model.family == Family::gpt2) return Architecture::gpt2;
  if (model.qk_norm) return Architecture::qwen3;
  return model.qkv_bias ? Architecture::qwen2 : Architecture::llama;
}

}  // namespace penstock::hugging_face
