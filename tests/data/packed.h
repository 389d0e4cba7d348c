#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <zlib.h>
#include <zstd.h>

namespace penstock::tests {

/// One gzip member.
inline std::string gzip(std::string_view text) {
  z_stream stream{};
  constexpr int gzip_windows = 16 + MAX_WBITS;
  if (deflateInit2(&stream, 6, Z_DEFLATED, gzip_windows, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// One zstd frame with a checksum.
inline std::string zstd(std::string_view text, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log > 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()) + 64, '\0');
  size_t size = 0;
  if (window_log > 0) {  // as a stream, whose size the frame does not say: the window would be made smaller
    ZSTD_inBuffer in{text.data(), text.size(), 0};
    ZSTD_outBuffer buffer{out.data(), out.size(), 0};
    ZSTD_compressStream2(context, &buffer, &in, ZSTD_e_continue);
    if (ZSTD_compressStream2(context, &buffer, &in, ZSTD_e_end) != 0) throw std::runtime_error("zstd");
    size = buffer.pos;
  } else {
    size = ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size());
  }
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size) != 0) throw std::runtime_error(ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

}  // namespace penstock::tests
