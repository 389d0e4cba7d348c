#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint/safetensors.h"

namespace penstock::hugging_face {

/// The weights' files of a folder: which tensors each holds.
struct WeightFile {
  std::string name;  ///< model.safetensors, or model-00001-of-00003.safetensors
  std::vector<checkpoint::StoredTensor> tensors;
};

/// Spreads tensors (name, type, shape) over files in their order: a file takes what fits into `limit` bytes
/// of values, at least one tensor.
std::vector<WeightFile> spread(const std::vector<checkpoint::StoredTensor>& tensors, uint64_t limit);

/// The text of model.safetensors.index.json.
std::string index_json(const std::vector<WeightFile>& files);

/// Bytes of a tensor's values.
uint64_t bytes_of(const checkpoint::StoredTensor& tensor);

}  // namespace penstock::hugging_face
