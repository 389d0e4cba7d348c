#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock::data {

/// How a file's bytes are packed.
enum class Compression : uint8_t { none, gzip, zstd };

/// What `start`, the first bytes of `path` (at least 8 of them where it has as many), and its name say.
/// Throws DataError for a name that ends in .gz or .zst on other bytes, and for formats that are not read
/// (xz, bzip2, zip, Parquet), with what to do.
Compression compression_of(const std::string& path, std::string_view start);

/// `path` without a .gz or .zst at its end.
std::string_view without_compression_ending(std::string_view path);

/// Unpacks a stream that comes in pieces: gzip members or zstd frames, one behind the other.
class StreamDecoder {
 public:
  struct Progress {
    size_t taken = 0;
    size_t made = 0;
  };

  StreamDecoder() = default;
  virtual ~StreamDecoder() = default;
  StreamDecoder(const StreamDecoder&) = delete;
  StreamDecoder& operator=(const StreamDecoder&) = delete;

  /// Takes bytes from the front of `from`, which stand at `offset` of the file, and makes at most into.size()
  /// (> 0). Neither: it wants more. Throws DataError with the offset where the stream is damaged.
  virtual Progress decode(std::span<const char> from, uint64_t offset, std::span<char> into) = 0;

  /// Whether a file may end here: every member or frame that began has ended.
  virtual bool may_end() const = 0;
};

/// Not for Compression::none. `path` is for errors.
std::unique_ptr<StreamDecoder> make_decoder(Compression compression, const std::string& path);

/// "gzip", "zstd".
const char* compression_name(Compression compression);

}  // namespace penstock::data
