#pragma once

#include <set>
#include <string>
#include <vector>

#include "model/model_section.h"
#include "trainer/hugging_face/architecture.h"

namespace penstock::hugging_face {

/// What a config.json says of a model.
struct ModelConfig {
  Architecture architecture = Architecture::gpt2;
  /// Complete; sequence_length is the longest that the config declares, vocab_pad our default.
  ModelSection model;
  std::vector<std::string> notes;  ///< for the user: what was read and has no effect here
};

/// Reads a config.json of one of our classes. DataError listing every field that is missing, malformed,
/// unknown or asks for what models here do not do, with its value and what is supported. Fields of `ignored`
/// are not looked at.
ModelConfig read_config(const std::string& path, const std::set<std::string>& ignored);

}  // namespace penstock::hugging_face
