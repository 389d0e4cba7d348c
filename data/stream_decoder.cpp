#include "data/stream_decoder.h"

#include <array>
#include <stdexcept>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/gzip_decoder.h"
#include "data/zstd_decoder.h"

namespace penstock::data {
namespace {

using namespace std::string_view_literals;

struct ForeignFormat {
  std::string_view magic;
  const char* name;
  const char* advice;
};

// What would otherwise be taken for text.
constexpr std::array<ForeignFormat, 5> foreign{{
    {"\xFD"
     "7zXZ\0"sv,
     "an xz file",
     "unpack it: xzcat FILE | penstock data prepare --input - ..., or pack it with gzip or zstd"},
    {"BZh91AY&SY"sv, "a bzip2 file",
     "unpack it: bzcat FILE | penstock data prepare --input - ..., or pack it with gzip or zstd"},
    {"PK\x03\x04"sv, "a zip archive", "unpack it and give the files in it"},
    {"\x04\x22\x4D\x18"sv, "an lz4 file",
     "unpack it: lz4cat FILE | penstock data prepare --input - ..., or pack it with gzip or zstd"},
    {"PAR1"sv, "a Parquet file", "write its texts as JSON lines first ({\"text\": \"...\"} a line)"},
}};

bool is_zstd(std::string_view start) {
  const bool frame = start.starts_with("\x28\xB5\x2F\xFD"sv);
  const bool skippable = start.size() >= 4 && (static_cast<uint8_t>(start[0]) & 0xF0U) == 0x50U &&
                         start.substr(1, 3) == "\x2A\x4D\x18"sv;
  return frame || skippable;
}

}  // namespace

const char* compression_name(Compression compression) {
  switch (compression) {
    case Compression::gzip:
      return "gzip";
    case Compression::zstd:
      return "zstd";
    case Compression::none:
      break;
  }
  return "none";
}

std::string_view without_compression_ending(std::string_view path) {
  for (const std::string_view ending : {".gz"sv, ".zst"sv}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return path;
}

Compression compression_of(const std::string& path, std::string_view start) {
  if (start.starts_with("\x1F\x8B"sv)) return Compression::gzip;
  if (is_zstd(start)) return Compression::zstd;
  for (const ForeignFormat& format : foreign) {
    if (!start.starts_with(format.magic)) continue;
    throw DataError(Fault{path, 0, format.name, "text, JSON lines, or one of them packed by gzip or zstd",
                          format.advice});
  }
  for (const Compression expected : {Compression::gzip, Compression::zstd}) {
    if (!path.ends_with(expected == Compression::gzip ? ".gz"sv : ".zst"sv)) continue;
    std::string found = start.empty() ? "an empty file" : "a file that begins with";
    for (const char c : start.substr(0, 4)) found += fmt::format(" {:02X}", static_cast<uint8_t>(c));
    throw DataError(Fault{path, 0, found,
                          fmt::format("a {} stream ({}), as its name says", compression_name(expected),
                                      expected == Compression::gzip ? "1F 8B" : "28 B5 2F FD"),
                          "the file is damaged, or its name should not end so"});
  }
  return Compression::none;
}

std::unique_ptr<StreamDecoder> make_decoder(Compression compression, const std::string& path) {
  if (compression == Compression::none) throw std::logic_error("a decoder of what is not packed");
  return compression == Compression::gzip ? make_gzip_decoder(path) : make_zstd_decoder(path);
}

}  // namespace penstock::data
