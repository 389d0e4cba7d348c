#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace penstock::data {

/// Where a file is wrong and what would be right; DataError turns it into one sentence.
struct Fault {
  std::string file;
  std::optional<uint64_t> offset;  ///< byte in the file, where there is one
  std::string found;
  std::string expected;
  std::string advice;  ///< what to do about it
};

/// A file is missing, unreadable, unwritable or malformed. The program exits with ExitCode::data.
class DataError : public std::runtime_error {
 public:
  /// "FILE: byte OFFSET: found FOUND, expected EXPECTED; ADVICE"
  explicit DataError(const Fault& fault);
  using std::runtime_error::runtime_error;
};

/// A system call on `file` failed: "FILE: cannot DOING [at byte OFFSET]: errno's text; ADVICE". `error` is
/// errno.
DataError system_error(const std::string& file, const std::string& doing, int error,
                       std::optional<uint64_t> offset = std::nullopt);

}  // namespace penstock::data
