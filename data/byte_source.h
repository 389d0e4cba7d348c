#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock::data {

/// Bytes read in order from a file, a pipe or, as "-", from standard input.
class ByteSource {
 public:
  /// Throws DataError: missing, unreadable, a folder.
  explicit ByteSource(std::string path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Reads at most `size` bytes; 0 only at the end. Throws DataError with the offset.
  size_t read(char* into, size_t size);

  /// Goes on from there; of a regular file. Throws DataError.
  void seek(uint64_t offset);

  const std::string& path() const { return path_; }
  uint64_t offset() const { return offset_; }
  /// Where it is a regular file.
  std::optional<uint64_t> size() const { return size_; }

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t offset_ = 0;
  std::optional<uint64_t> size_;
};

}  // namespace penstock::data
