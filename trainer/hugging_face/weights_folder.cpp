#include "trainer/hugging_face/weights_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/data_error.h"
#include "kernels/device/bfloat16.h"
#include "kernels/device/error.h"
#include "kernels/device/float16.h"
#include "trainer/hugging_face/read_json.h"

namespace penstock::hugging_face {
namespace {

namespace fs = std::filesystem;
using checkpoint::StoredTensor;
using checkpoint::StoredType;

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

std::string shape_text(const std::vector<uint64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

// Constants that some versions of transformers stored beside the weights.
bool is_table(const std::string& name) {
  return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias") ||
         ends_with(name, ".rotary_emb.inv_freq");
}

bool is_read(StoredType type) {
  return type == StoredType::f32 || type == StoredType::bf16 || type == StoredType::f16;
}

// Whether the part can be read from the tensor.
bool holds(const StoredTensor& tensor, const Part& part) {
  std::vector<uint64_t> shape = tensor.shape;
  const std::vector<uint64_t> wanted = part.stored_shape();
  if (shape.size() == 2 && !part.transposed) shape[0] = std::min(shape[0], wanted[0]);
  return shape == wanted && is_read(tensor.type);
}

// Element `at` of a tensor's bytes, which need not be aligned.
template <class Stored>
Stored element(const std::byte* bytes, int64_t at) {
  Stored value;
  std::memcpy(&value, bytes + static_cast<size_t>(at) * sizeof(Stored), sizeof(Stored));
  return value;
}

float value_at(const std::byte* bytes, StoredType type, int64_t at) {
  if (type == StoredType::f32) return element<float>(bytes, at);
  if (type == StoredType::f16) return static_cast<float>(element<float16>(bytes, at));
  return static_cast<float>(element<bfloat16>(bytes, at));
}

// Tensor → file, from the index.
std::map<std::string, std::string> read_index(const std::string& path) {
  const nlohmann::json index = read_json(path);
  const auto map = index.find("weight_map");
  const auto refuse = [&](const std::string& found, const char* expected) {
    throw data::DataError(data::Fault{path, {}, found, expected, "fetch or write the folder again"});
  };
  if (map == index.end() || !map->is_object() || map->empty())
    refuse("no weight_map", "an object weight_map: tensor to file");
  std::map<std::string, std::string> file_of;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() ||
        fs::path(file.get<std::string>()).filename() != fs::path(file.get<std::string>()))
      refuse(fmt::format("{} for tensor {}", file.dump().substr(0, 200), name), "a file of the same folder");
    file_of[name] = file.get<std::string>();
  }
  return file_of;
}

}  // namespace

WeightsFolder::WeightsFolder(const std::string& folder, Architecture architecture) : folder_(folder) {
  const fs::path at(folder);
  if (fs::exists(at / index_name)) {
    const auto file_of = read_index((at / index_name).string());
    std::set<std::string> names;
    for (const auto& [tensor, file] : file_of) names.insert(file);
    for (const std::string& name : names) open((at / name).string());
    check_index((at / index_name).string(), file_of);
  } else if (fs::exists(at / single_name)) {
    open((at / single_name).string());
  } else {
    const bool pickled =
        fs::exists(at / "pytorch_model.bin") || fs::exists(at / "pytorch_model.bin.index.json");
    throw data::DataError(
        data::Fault{folder,
                    {},
                    pickled ? "pytorch_model.bin, which holds code as well as values" : "no weights",
                    fmt::format("{} or {}", single_name, index_name),
                    pickled ? "load it with transformers and write it with save_pretrained()"
                            : "fetch the whole folder"});
  }
  settle_names(architecture);
}

void WeightsFolder::open(const std::string& path) {
  files_.emplace_back(path);
  for (const StoredTensor& tensor : files_.back().tensors()) {
    const auto [other, fresh] = tensors_.try_emplace(tensor.name, Stored{files_.size() - 1, tensor});
    if (!fresh) {
      throw data::DataError(data::Fault{
          path, tensor.begin,
          fmt::format("tensor {}, which {} has too", tensor.name, files_[other->second.file].path()),
          "each tensor once", "fetch or write the folder again"});
    }
  }
}

void WeightsFolder::check_index(const std::string& path,
                                const std::map<std::string, std::string>& file_of) const {
  for (const auto& [name, file] : file_of) {
    const auto found = tensors_.find(name);
    if (found != tensors_.end() && fs::path(files_[found->second.file].path()).filename() == file) continue;
    throw data::DataError(data::Fault{path,
                                      {},
                                      fmt::format("tensor {} in {}, which does not hold it", name, file),
                                      "the file that does",
                                      "fetch or write the folder again"});
  }
}

void WeightsFolder::settle_names(Architecture architecture) {
  const std::string prefix = name_prefix(architecture);
  const bool prefixed = std::any_of(tensors_.begin(), tensors_.end(),
                                    [&](const auto& entry) { return entry.first.rfind(prefix, 0) == 0; });
  std::map<std::string, Stored> settled;
  for (auto& [name, stored] : tensors_) {
    if (is_table(name)) continue;
    settled.emplace(prefixed || name == head_name ? name : prefix + name, std::move(stored));
  }
  tensors_ = std::move(settled);
}

std::vector<std::string> WeightsFolder::problems(const std::vector<Part>& expected) const {
  std::vector<std::string> lines;
  std::set<std::string> known;
  for (const Part& part : expected) {
    known.insert(part.name);
    const auto found = tensors_.find(part.name);
    const std::string wanted = shape_text(part.stored_shape());
    if (found == tensors_.end()) {
      lines.push_back(fmt::format("tensor {}: missing, expected {}", part.name, wanted));
      continue;
    }
    const StoredTensor& tensor = found->second.tensor;
    if (tensor.shape != part.stored_shape()) {
      lines.push_back(
          fmt::format("tensor {}: found {}, expected {}", part.name, shape_text(tensor.shape), wanted));
    } else if (!is_read(tensor.type)) {
      lines.push_back(fmt::format("tensor {}: found {}, expected F32, BF16 or F16", part.name,
                                  checkpoint::name_of(tensor.type)));
    }
  }
  for (const auto& [name, stored] : tensors_) {
    if (known.count(name) == 0) {
      lines.push_back(
          fmt::format("tensor {}: found {}, expected no such tensor", name, shape_text(stored.tensor.shape)));
    }
  }
  return lines;
}

void WeightsFolder::read(const Part& part, float* values) const {
  const auto found = tensors_.find(part.name);
  if (found == tensors_.end() || !holds(found->second.tensor, part)) {
    throw UsageError(fmt::format("{}: reads tensor {}, which is not there as expected", folder_, part.name));
  }
  const StoredTensor& tensor = found->second.tensor;
  const checkpoint::SafetensorsFile& file = files_[found->second.file];
  const std::byte* bytes = file.bytes() + tensor.begin;
  for (int64_t row = 0; row < part.rows; ++row) {
    for (int64_t column = 0; column < part.columns; ++column) {
      const int64_t at = part.transposed ? column * part.rows + row : row * part.columns + column;
      const float value = value_at(bytes, tensor.type, at);
      if (!std::isfinite(value)) {
        throw data::DataError(data::Fault{
            file.path(), tensor.begin + static_cast<uint64_t>(at) * checkpoint::size_of(tensor.type),
            fmt::format("{} in tensor {}", value, part.name), "finite weights",
            "fetch the file again, or take an earlier state of the model"});
      }
      values[row * part.columns + column] = value;
    }
  }
}

std::string WeightsFolder::types() const {
  std::set<std::string_view> names;
  for (const auto& [name, stored] : tensors_) names.insert(checkpoint::name_of(stored.tensor.type));
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace penstock::hugging_face
