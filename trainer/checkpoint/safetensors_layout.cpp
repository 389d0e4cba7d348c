#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "kernels/device/error.h"
#include "trainer/checkpoint/safetensors.h"

namespace penstock::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view metadata_name = "__metadata__";

uint64_t bytes_of(const StoredTensor& tensor) {
  uint64_t bytes = size_of(tensor.type);
  for (const uint64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) ||
        bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw UsageError(fmt::format("tensor {}: its size overflows 64 bits", tensor.name));
    }
  }
  return bytes;
}

}  // namespace

SafetensorsLayout lay_out_safetensors(std::vector<StoredTensor> tensors,
                                      const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::make_tuple(size_of(b.type), std::string_view(a.name)) <
           std::make_tuple(size_of(a.type), std::string_view(b.name));
  });
  nlohmann::ordered_json about(metadata);
  about["format"] = "pt";
  // Composed entry by entry: a JSON object that keeps its order looks through all it has for each new name.
  std::string text = fmt::format("{{\"{}\":{}", metadata_name, about.dump());
  std::unordered_set<std::string_view> names{metadata_name};
  uint64_t end = 0;
  for (StoredTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw UsageError(fmt::format("two tensors named {} for one safetensors file", tensor.name));
    }
    tensor.begin = end;
    tensor.end = end += bytes_of(tensor);
    fmt::format_to(std::back_inserter(text), R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   nlohmann::json(tensor.name).dump(), name_of(tensor.type), fmt::join(tensor.shape, ","),
                   tensor.begin, tensor.end);
  }
  text += '}';
  SafetensorsLayout layout;
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  layout.head.resize(sizeof(length));
  std::memcpy(layout.head.data(), &length, sizeof(length));
  layout.head += text;
  for (StoredTensor& tensor : tensors) {
    tensor.begin += layout.head.size();
    tensor.end += layout.head.size();
  }
  layout.file_bytes = layout.head.size() + end;
  layout.tensors = std::move(tensors);
  return layout;
}

}  // namespace penstock::checkpoint
