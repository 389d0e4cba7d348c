#include "data/token_format.h"

#include <array>
#include <cstring>

#include <fmt/format.h>

#include "data/data_error.h"

namespace penstock::data {
namespace {

constexpr uint64_t header_bytes = 1024;
constexpr uint64_t version_at = 4;
constexpr uint64_t count_at = 8;
constexpr int32_t questions_magic = 20240522;

struct Kind {
  int32_t magic;
  int32_t version;
  TokenType type;
  int32_t document_token;
};

constexpr std::array<Kind, 2> kinds{
    {{20240520, 1, TokenType::uint16, 50256}, {20240801, 7, TokenType::uint32, 128000}}};

int32_t number_at(const MappedFile& bin, uint64_t offset) {
  int32_t value = 0;
  std::memcpy(&value, bin.data() + offset, sizeof(value));
  return value;
}

}  // namespace

const char* token_format_name(TokenFormat format) {
  switch (format) {
    case TokenFormat::megatron:
      return "megatron";
    case TokenFormat::llm_c:
      return "llm.c";
    case TokenFormat::headerless:
      return "headerless";
  }
  return "unknown";
}

std::optional<TokenLayout> llm_c_layout(const MappedFile& bin) {
  if (bin.size() < sizeof(int32_t)) return std::nullopt;
  const int32_t magic = number_at(bin, 0);
  if (magic == questions_magic) {
    throw DataError(Fault{bin.path(), 0, fmt::format("magic {} (llm.c's multiple-choice questions)", magic),
                          fmt::format("magic {} or {} (tokens)", kinds[0].magic, kinds[1].magic),
                          "give a file that llm.c's scripts write for training"});
  }
  for (const Kind& kind : kinds) {
    if (kind.magic != magic) continue;
    const auto refuse = [&](uint64_t offset, const std::string& found, const std::string& expected,
                            const char* advice) {
      throw DataError(Fault{bin.path(), offset, found, expected, advice});
    };
    if (bin.size() < header_bytes) {
      refuse(bin.size(), fmt::format("the end of the file after {} bytes", bin.size()),
             fmt::format("llm.c's header of {} bytes", header_bytes), "copy or write the file again");
    }
    if (const int32_t version = number_at(bin, version_at); version != kind.version) {
      refuse(version_at, fmt::format("version {}", version),
             fmt::format("version {}, which llm.c's magic {} goes with", kind.version, magic),
             "write the file with a present llm.c, or prepare the data again (penstock data prepare)");
    }
    const auto item = static_cast<uint64_t>(token_bytes(kind.type));
    const uint64_t room = bin.size() - header_bytes;
    const int32_t count = number_at(bin, count_at);
    if (count < 0 || static_cast<uint64_t>(count) * item != room) {
      refuse(count_at, fmt::format("{} tokens", count),
             fmt::format("the number that the file has: {} bytes behind the header, {} a token", room, item),
             "the file was cut short or damaged: copy or write it again");
    }
    return TokenLayout{TokenFormat::llm_c, kind.type, header_bytes, static_cast<uint64_t>(count),
                       DocumentMark{kind.document_token, true}};
  }
  return std::nullopt;
}

TokenLayout headerless_layout(const MappedFile& bin, TokenType type) {
  const auto item = static_cast<uint64_t>(token_bytes(type));
  if (bin.size() % item != 0) {
    throw DataError(Fault{bin.path(), bin.size() - bin.size() % item,
                          fmt::format("the end of the file in the middle of a token ({} bytes)", bin.size()),
                          fmt::format("a multiple of {} bytes ({})", item, token_type_name(type)),
                          "the file was cut short, or its tokens have another type"});
  }
  return {TokenFormat::headerless, type, 0, bin.size() / item, std::nullopt};
}

}  // namespace penstock::data
