#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/device/error.h"
#include "trainer/checkpoint/safetensors.h"

namespace penstock::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

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
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  header["__metadata__"]["format"] = "pt";
  uint64_t end = 0;
  for (StoredTensor& tensor : tensors) {
    if (header.contains(tensor.name)) {
      throw UsageError(fmt::format("two tensors named {} for one safetensors file", tensor.name));
    }
    tensor.begin = end;
    tensor.end = end += bytes_of(tensor);
    header[tensor.name] = {{"dtype", name_of(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  }
  SafetensorsLayout layout;
  std::string text = header.dump();
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
