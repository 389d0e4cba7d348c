#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::checkpoint {

/// Files in a checkpoint's folder besides the shards. The marker is empty: it says that the run made the
/// folder.
inline constexpr std::string_view manifest_name = "manifest.json";
inline constexpr std::string_view marker_name = "penstock-checkpoint";

/// A folder in a run's `checkpoints/` whose name is one that the program gives.
struct StepFolder {
  enum class Kind : uint8_t {
    complete,   ///< step-00000100, renamed into place
    temporary,  ///< .tmp-step-00000100-3: attempt 3 is, or was, writing it
    outgoing    ///< .old-step-00000100-3: attempt 3 is, or was, deleting it
  };
  Kind kind = Kind::complete;
  int64_t step = 0;
  uint64_t attempt = 0;  ///< 0 for a complete one
  std::string path;
};

/// "step-00000100", ".tmp-step-00000100-3", ".old-step-00000100-3".
std::string name_of(StepFolder::Kind kind, int64_t step, uint64_t attempt);

/// The inverse; nothing for any other name.
std::optional<StepFolder> parse_name(std::string_view name);

/// The folders with such names in `checkpoints`, by step; empty where it does not exist. DataError if it
/// cannot be read.
std::vector<StepFolder> scan(const std::string& checkpoints);

/// "shard-00003.safetensors".
std::string shard_name(int index);

/// Whether the program gives such a name to a shard, "shard-00003.safetensors.partial" included.
bool is_shard_name(std::string_view name);

/// Deletes a folder that the run made. Where it has no marker although it is not empty, or holds anything
/// that the run did not write, nothing is deleted and the reason is returned; "" when it is gone. DataError
/// if a call fails.
std::string remove_folder(const std::string& path);

}  // namespace penstock::checkpoint
