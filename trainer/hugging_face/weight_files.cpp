#include "trainer/hugging_face/weight_files.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace penstock::hugging_face {

using checkpoint::StoredTensor;

uint64_t bytes_of(const StoredTensor& tensor) {
  uint64_t bytes = checkpoint::size_of(tensor.type);
  for (const uint64_t extent : tensor.shape) bytes *= extent;
  return bytes;
}

std::vector<WeightFile> spread(const std::vector<StoredTensor>& tensors, uint64_t limit) {
  std::vector<WeightFile> files;
  uint64_t filled = 0;
  for (const StoredTensor& tensor : tensors) {
    if (files.empty() || filled + bytes_of(tensor) > limit) {
      files.emplace_back();
      filled = 0;
    }
    files.back().tensors.push_back(tensor);
    filled += bytes_of(tensor);
  }
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].name = files.size() == 1 ? "model.safetensors"
                                      : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
  }
  return files;
}

std::string index_json(const std::vector<WeightFile>& files) {
  uint64_t total = 0;
  std::map<std::string, std::string> file_of;
  for (const WeightFile& file : files) {
    for (const StoredTensor& tensor : file.tensors) {
      total += bytes_of(tensor);
      file_of[tensor.name] = file.name;
    }
  }
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", file_of}};
  return index.dump(2) + "\n";
}

}  // namespace penstock::hugging_face
