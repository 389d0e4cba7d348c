#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "data/content_hash.h"
#include "data/file_writer.h"
#include "kernels/device/error.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/step_folders.h"

namespace penstock::checkpoint {
namespace {

// Hashed and written in pieces that stay in the cache in between.
constexpr size_t block_bytes = size_t{4} << 20;

bool is_whole(const Source& source) {
  return source.offset == 0 && source.count == source.shape.elements();
}

// A part of a tensor stands in its shard as a vector under "name[first:end]".
StoredTensor stored(const Source& source) {
  if (source.name.empty() || source.name == "__metadata__") {
    throw UsageError(fmt::format("\"{}\" as the name of a tensor to save", source.name));
  }
  if (source.offset < 0 || source.count < 0 || source.count > source.shape.elements() - source.offset ||
      (source.data == nullptr && source.count > 0)) {
    throw UsageError(fmt::format("tensor {} {}: elements [{}, {} + {}) to save from {}", source.name,
                                 to_string(source.shape), source.offset, source.offset, source.count,
                                 source.data));
  }
  StoredTensor tensor;
  tensor.type = stored_type(source.dtype);
  if (is_whole(source)) {
    tensor.name = source.name;
    for (int axis = 0; axis < source.shape.rank; ++axis) {
      tensor.shape.push_back(static_cast<uint64_t>(source.shape[axis]));
    }
  } else {
    tensor.name = fmt::format("{}[{}:{}]", source.name, source.offset, source.offset + source.count);
    tensor.shape.push_back(static_cast<uint64_t>(source.count));
  }
  return tensor;
}

SafetensorsLayout lay_out(const std::vector<Source>& sources) {
  std::vector<StoredTensor> tensors;
  tensors.reserve(sources.size());
  for (const Source& source : sources) tensors.push_back(stored(source));
  return lay_out_safetensors(std::move(tensors), {});
}

std::string write_hashed(data::FileWriter& writer, const void* data, size_t size,
                         const BetweenBlocks& between_blocks) {
  data::ContentHash hash;
  const auto* at = static_cast<const std::byte*>(data);
  while (size > 0) {
    if (between_blocks) between_blocks();
    const size_t block = std::min(size, block_bytes);
    hash.bytes(at, block);
    writer.write(at, block);
    at += block;
    size -= block;
  }
  return hash.hex();
}

}  // namespace

Source whole(std::string name, const Tensor& tensor) {
  Source source;
  source.name = std::move(name);
  source.dtype = tensor.dtype;
  source.shape = tensor.shape;
  source.count = tensor.elements();
  source.data = tensor.data;
  return source;
}

uint64_t shard_bytes(const std::vector<Source>& sources) {
  return lay_out(sources).file_bytes;
}

ShardEntry write_shard(const std::string& folder, int index, const std::vector<Source>& sources,
                       const BetweenBlocks& between_blocks) {
  const SafetensorsLayout layout = lay_out(sources);
  std::map<std::string, const Source*> by_name;
  for (const Source& source : sources) by_name[stored(source).name] = &source;
  ShardEntry entry;
  entry.shard.file = shard_name(index);
  entry.shard.bytes = layout.file_bytes;
  entry.shard.head_bytes = layout.head.size();
  data::FileWriter writer(folder + "/" + entry.shard.file);
  entry.shard.head_hash = write_hashed(writer, layout.head.data(), layout.head.size(), between_blocks);
  for (const StoredTensor& tensor : layout.tensors) {
    const Source& source = *by_name.at(tensor.name);
    ShardEntry::Held held;
    static_cast<TensorDescription&>(held) = source;
    held.piece.offset = source.offset;
    held.piece.count = source.count;
    held.piece.begin = tensor.begin;
    held.piece.hash = write_hashed(writer, source.data, tensor.end - tensor.begin, between_blocks);
    entry.held.push_back(std::move(held));
  }
  writer.commit();
  return entry;
}

std::vector<GlobalTensor> merge(const std::vector<ShardEntry>& entries) {
  std::map<std::string, GlobalTensor> by_name;
  for (size_t shard = 0; shard < entries.size(); ++shard) {
    for (const ShardEntry::Held& held : entries[shard].held) {
      const auto [at, is_new] = by_name.try_emplace(held.name);
      GlobalTensor& tensor = at->second;
      if (is_new) static_cast<TensorDescription&>(tensor) = held;
      if (tensor.dtype != held.dtype || tensor.shape != held.shape) {
        throw UsageError(fmt::format("tensor {}: {} holds {} {}, an earlier shard {} {}", held.name,
                                     entries[shard].shard.file, name_of(held.dtype), to_string(held.shape),
                                     name_of(tensor.dtype), to_string(tensor.shape)));
      }
      tensor.pieces.push_back(held.piece);
      tensor.pieces.back().shard = shard;
    }
  }
  std::vector<GlobalTensor> tensors;
  for (auto& [name, tensor] : by_name) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
    const std::string fault = coverage_fault(tensor);
    if (!fault.empty()) throw UsageError(fault);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace penstock::checkpoint
