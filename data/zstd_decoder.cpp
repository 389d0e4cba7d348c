#include "data/zstd_decoder.h"

#include <new>

#include <zstd.h>
#include <zstd_errors.h>

#include "data/data_error.h"

namespace penstock::data {
namespace {

constexpr int largest_window = 27;  // as log2; 128 MiB, what the zstd tool takes without being asked

class ZstdDecoder : public StreamDecoder {
 public:
  explicit ZstdDecoder(const std::string& path) : path_(path), context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (!context_) throw std::bad_alloc();
    check(ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, largest_window), 0);
  }

  Progress decode(std::span<const char> from, uint64_t offset, std::span<char> into) override {
    if (from.empty() && between_) return {};
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    const size_t wanted = ZSTD_decompressStream(context_.get(), &out, &in);
    check(wanted, offset + in.pos);
    if (in.pos > 0 || out.pos > 0) between_ = wanted == 0;
    return {in.pos, out.pos};
  }

  bool may_end() const override { return between_; }

 private:
  void check(size_t result, uint64_t offset) const {
    if (ZSTD_isError(result) == 0) return;
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
    if (code == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (code == ZSTD_error_frameParameter_windowTooLarge) {
      throw DataError(Fault{path_, offset, "a zstd frame with a window of more than 128 MiB",
                            "at most 128 MiB (--long=27), so that memory stays small",
                            "unpack it first: zstdcat --long=31 FILE | penstock data prepare --input - ..."});
    }
    throw DataError(Fault{path_, offset,
                          std::string("a damaged zstd stream (") + ZSTD_getErrorName(result) + ")",
                          "a whole one", "copy or make the file again; zstd -t FILE checks it"});
  }

  std::string path_;
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context_;
  bool between_ = true;  // frames
};

}  // namespace

std::unique_ptr<StreamDecoder> make_zstd_decoder(const std::string& path) {
  return std::make_unique<ZstdDecoder>(path);
}

}  // namespace penstock::data
