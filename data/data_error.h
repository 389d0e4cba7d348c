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

/// A file is missing, unreadable or malformed. The program exits with ExitCode::data.
class DataError : public std::runtime_error {
 public:
  /// "FILE: byte OFFSET: found FOUND, expected EXPECTED; ADVICE"
  explicit DataError(const Fault& fault);
  using std::runtime_error::runtime_error;
};

/// A file or folder cannot be written: no space, no such folder, no right to. The program exits with
/// ExitCode::storage.
class WriteError : public DataError {
 public:
  explicit WriteError(const Fault& fault) : DataError(fault) {}
  explicit WriteError(const std::string& text) : DataError(text) {}
};

/// A system call on `file` failed: "FILE: cannot DOING [at byte OFFSET]: errno's text; ADVICE". `error` is
/// errno.
DataError system_error(const std::string& file, const std::string& doing, int error,
                       std::optional<uint64_t> offset = std::nullopt);
/// The same of a call that writes or creates.
WriteError write_error(const std::string& file, const std::string& doing, int error,
                       std::optional<uint64_t> offset = std::nullopt);

}  // namespace penstock::data
