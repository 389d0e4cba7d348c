#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::commands {

/// A text that a command reads.
struct InputFile {
  std::string path;
  std::optional<uint64_t> bytes;  ///< none: a pipe or standard input
  int64_t modified = 0;           ///< ns since the epoch, of a regular file
};

/// The files that `given` names. A name that no file has is taken as a pattern (`* ? [...]`, by glob(7)) and
/// stands for those that match, in the order of their bytes. Throws data::DataError for a pattern without a
/// match, for a file that cannot be opened, so that a wrong name among many is noticed before the work, and
/// for standard input given twice.
std::vector<InputFile> input_files(const std::vector<std::string>& given);

/// Bytes of all, or nothing where one of them is a pipe.
std::optional<uint64_t> total_bytes(const std::vector<InputFile>& files);

}  // namespace penstock::commands
