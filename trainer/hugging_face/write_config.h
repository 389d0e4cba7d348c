#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/device/dtype.h"
#include "model/model_section.h"
#include "trainer/hugging_face/architecture.h"

namespace penstock::hugging_face {

/// What the files beside the weights say besides the model.
struct ConfigFacts {
  DType dtype = DType::fp32;           ///< of the weights
  int64_t positions = 0;               ///< the longest text that the model is declared for
  std::optional<int32_t> end_of_text;  ///< the token that ends a document, where there is a tokenizer
};

/// The text of a config.json, in words that transformers 4 and 5 both read. DataError if the class has no
/// such model (GPT-2 with heads · head_dim other than hidden_size).
std::string config_json(const ModelSection& model, Architecture architecture, const ConfigFacts& facts);

/// The text of a generation_config.json: where a text ends.
std::string generation_config_json(int32_t end_of_text);

/// The text of a tokenizer_config.json: that tokenizer.json is all of it, and what ends a text.
std::string tokenizer_config_json(const ConfigFacts& facts);

}  // namespace penstock::hugging_face
