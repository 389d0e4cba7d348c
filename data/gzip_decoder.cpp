#include "data/gzip_decoder.h"

#include <algorithm>
#include <limits>
#include <new>

#include <fmt/format.h>
#include <zlib.h>

#include "data/data_error.h"

namespace penstock::data {
namespace {

constexpr int gzip_windows = 16 + MAX_WBITS;  // zlib's way to ask for gzip's header
constexpr char first_byte = '\x1F';           // of a member

class GzipDecoder : public StreamDecoder {
 public:
  explicit GzipDecoder(const std::string& path) : path_(path) {
    if (inflateInit2(&stream_, gzip_windows) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }

  Progress decode(std::span<const char> from, uint64_t offset, std::span<char> into) override {
    if (between_ && !from.empty()) {
      if (from[0] == 0 && ended_one_) return take_padding(from, offset);
      if (padded_ || (ended_one_ && from[0] != first_byte)) refuse_garbage(from[0], offset);
      between_ = false;
      if (inflateReset(&stream_) != Z_OK) refuse(offset, "zlib's refusal to begin a member");
    }
    constexpr size_t most = std::numeric_limits<uInt>::max();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
    stream_.avail_in = static_cast<uInt>(std::min(from.size(), most));
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(std::min(into.size(), most));
    const uInt in = stream_.avail_in;
    const uInt out = stream_.avail_out;
    const int result = between_ ? Z_BUF_ERROR : inflate(&stream_, Z_NO_FLUSH);
    const Progress progress{in - stream_.avail_in, out - stream_.avail_out};
    if (result == Z_STREAM_END) {
      between_ = true;
      ended_one_ = true;
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      refuse(offset + progress.taken,
             stream_.msg != nullptr ? stream_.msg : fmt::format("zlib's error {}", result));
    }
    return progress;
  }

  bool may_end() const override { return between_ && ended_one_; }

 private:
  Progress take_padding(std::span<const char> from, uint64_t offset) {
    padded_ = true;
    const auto end = std::find_if(from.begin(), from.end(), [](char c) { return c != 0; });
    const auto zeros = static_cast<size_t>(end - from.begin());
    if (end != from.end()) refuse_garbage(*end, offset + zeros);
    return {zeros, 0};
  }

  [[noreturn]] void refuse_garbage(char byte, uint64_t offset) const {
    throw DataError(
        Fault{path_, offset,
              fmt::format("byte {:02X} behind the end of the gzip stream", static_cast<uint8_t>(byte)),
              "another gzip member (1F 8B) or the end of the file",
              "the file is damaged or has something appended: copy or make it again"});
  }
  [[noreturn]] void refuse(uint64_t offset, const std::string& found) const {
    throw DataError(Fault{path_, offset, "a damaged gzip stream (" + found + ")", "a whole one",
                          "copy or make the file again; gzip -t FILE checks it"});
  }

  std::string path_;
  z_stream stream_{};
  bool between_ = true;     // members: none begun, or the last one ended
  bool ended_one_ = false;  // at least
  bool padded_ = false;
};

}  // namespace

std::unique_ptr<StreamDecoder> make_gzip_decoder(const std::string& path) {
  return std::make_unique<GzipDecoder>(path);
}

}  // namespace penstock::data
