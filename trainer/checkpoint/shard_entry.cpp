#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_writer.h"

// Both ends are the same build of the program, so the dtype travels as its enumerator.
namespace penstock::checkpoint {

using nlohmann::json;

std::string to_text(const ShardEntry& entry) {
  json held = json::array();
  for (const ShardEntry::Held& tensor : entry.held) {
    json shape = json::array();
    for (int axis = 0; axis < tensor.shape.rank; ++axis) shape.push_back(tensor.shape[axis]);
    held.push_back({{"name", tensor.name},
                    {"dtype", static_cast<int>(tensor.dtype)},
                    {"shape", shape},
                    {"offset", tensor.piece.offset},
                    {"count", tensor.piece.count},
                    {"begin", tensor.piece.begin},
                    {"hash", tensor.piece.hash}});
  }
  return json{{"file", entry.shard.file},
              {"bytes", entry.shard.bytes},
              {"head_bytes", entry.shard.head_bytes},
              {"head_hash", entry.shard.head_hash},
              {"held", held}}
      .dump();
}

ShardEntry shard_entry_from_text(std::string_view text) {
  try {
    const json values = json::parse(text.begin(), text.end());
    ShardEntry entry;
    entry.shard = {values.at("file").get<std::string>(), values.at("bytes").get<uint64_t>(),
                   values.at("head_bytes").get<uint64_t>(), values.at("head_hash").get<std::string>()};
    for (const json& row : values.at("held")) {
      ShardEntry::Held held;
      held.name = row.at("name").get<std::string>();
      held.dtype = static_cast<DType>(row.at("dtype").get<int>());
      for (const json& extent : row.at("shape")) {
        held.shape.extent.at(static_cast<size_t>(held.shape.rank++)) = extent.get<int64_t>();
      }
      held.piece = {0, row.at("offset").get<int64_t>(), row.at("count").get<int64_t>(),
                    row.at("begin").get<uint64_t>(), row.at("hash").get<std::string>()};
      entry.held.push_back(std::move(held));
    }
    return entry;
  } catch (const std::exception& error) {
    throw CheckpointError(fmt::format(
        "found a shard's entry that cannot be read ({}), expected what its rank sent", error.what()));
  }
}

}  // namespace penstock::checkpoint
