#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/byte_source.h"
#include "data/stream_decoder.h"

namespace penstock::data {

/// The text of a file, a pipe or, as "-", standard input, read in order and unpacked where its first bytes
/// are those of gzip or zstd.
class InputStream {
 public:
  /// Reads the first bytes. Throws DataError: missing, unreadable, a folder, a format that is not read.
  explicit InputStream(const std::string& path);

  /// Reads at most `size` > 0 bytes of text; 0 only at the end. Throws DataError: reading fails, a packed
  /// stream is damaged or cut short.
  size_t read(char* into, size_t size);

  /// Goes on as if `offset` bytes of text had been read; nothing has been yet. Throws DataError where there
  /// are fewer.
  void skip_to(uint64_t offset);

  const std::string& path() const { return source_.path(); }
  Compression compression() const { return compression_; }
  /// Bytes of text that were read.
  uint64_t offset() const { return offset_; }
  /// Bytes of the file that this took; offset() where nothing is packed.
  uint64_t file_offset() const { return source_.offset() - (end_ - begin_); }
  /// Bytes of the file, where it is a regular one.
  std::optional<uint64_t> file_size() const { return source_.size(); }
  /// Bytes of text, where they are known before they are read.
  std::optional<uint64_t> text_size() const {
    return compression_ == Compression::none ? source_.size() : std::nullopt;
  }

 private:
  bool refill();
  size_t read_plain(char* into, size_t size);
  size_t read_packed(char* into, size_t size);

  ByteSource source_;
  std::vector<char> buffer_;  // of the file
  size_t begin_ = 0;
  size_t end_ = 0;
  Compression compression_ = Compression::none;
  std::unique_ptr<StreamDecoder> decoder_;
  uint64_t offset_ = 0;
};

}  // namespace penstock::data
