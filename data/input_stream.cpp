#include "data/input_stream.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "data/data_error.h"

namespace penstock::data {
namespace {

constexpr size_t buffer_bytes = size_t{256} << 10;
constexpr size_t longest_magic = 16;

}  // namespace

InputStream::InputStream(const std::string& path) : source_(path), buffer_(buffer_bytes) {
  while (end_ < longest_magic) {
    const size_t count = source_.read(buffer_.data() + end_, longest_magic - end_);
    if (count == 0) break;
    end_ += count;
  }
  compression_ = compression_of(source_.path(), {buffer_.data(), end_});
  if (compression_ != Compression::none) decoder_ = make_decoder(compression_, source_.path());
}

bool InputStream::refill() {
  begin_ = 0;
  end_ = source_.read(buffer_.data(), buffer_.size());
  return end_ > 0;
}

size_t InputStream::read(char* into, size_t size) {
  const size_t count = decoder_ ? read_packed(into, size) : read_plain(into, size);
  offset_ += count;
  return count;
}

size_t InputStream::read_plain(char* into, size_t size) {
  if (begin_ == end_) return source_.read(into, size);
  const size_t count = std::min(size, end_ - begin_);
  std::memcpy(into, buffer_.data() + begin_, count);
  begin_ += count;
  return count;
}

size_t InputStream::read_packed(char* into, size_t size) {
  for (bool more = true;;) {
    if (begin_ == end_ && more) more = refill();
    const auto progress =
        decoder_->decode({buffer_.data() + begin_, end_ - begin_}, file_offset(), {into, size});
    begin_ += progress.taken;
    if (progress.made > 0) return progress.made;
    if (more || progress.taken > 0) continue;
    if (decoder_->may_end()) return 0;
    throw DataError(Fault{path(), file_offset(),
                          fmt::format("the end of the file within a {} stream, after {} bytes of text",
                                      compression_name(compression_), offset_),
                          "the rest of it", "the file was cut short: copy or make it again"});
  }
}

void InputStream::skip_to(uint64_t offset) {
  if (!decoder_ && source_.size() && offset <= *source_.size()) {
    source_.seek(offset);
    begin_ = end_ = 0;
    offset_ = offset;
    return;
  }
  std::vector<char> passed(buffer_bytes);
  while (offset_ < offset) {
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(passed.size(), offset - offset_));
    if (read(passed.data(), wanted) > 0) continue;
    throw DataError(Fault{path(),
                          {},
                          fmt::format("{} bytes of text", offset_),
                          fmt::format("at least {}", offset),
                          "the file changed since the work on it began: begin again (--restart)"});
  }
}

}  // namespace penstock::data
