#include "data/token_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "data/content_hash.h"
#include "data/data_error.h"

namespace penstock::data {
namespace {

// Calls visit(T{}) with the type that tokens are stored as.
template <class Visit>
auto with_type(TokenType type, Visit&& visit) {
  switch (type) {
    case TokenType::uint8:
      return visit(uint8_t{});
    case TokenType::int8:
      return visit(int8_t{});
    case TokenType::int16:
      return visit(int16_t{});
    case TokenType::int32:
      return visit(int32_t{});
    case TokenType::int64:
      return visit(int64_t{});
    case TokenType::uint16:
      break;
  }
  return visit(uint16_t{});
}

// The files may be mapped at odd places only by their own fault, so values are copied, which compiles to
// plain loads.
template <class T>
int64_t token_at(const std::byte* data, uint64_t at) {
  T value;
  std::memcpy(&value, data + at * sizeof(T), sizeof(T));
  return static_cast<int64_t>(value);
}

struct Extremes {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t largest = -1;
};

template <class T>
Extremes extremes(const std::byte* data, uint64_t first, uint64_t end) {
  Extremes found;
  for (uint64_t at = first; at < end; ++at) {
    const int64_t token = token_at<T>(data, at);
    found.least = std::min(found.least, token);
    found.largest = std::max(found.largest, token);
  }
  return found;
}

// The offset of the first token of [first, end) outside [0, vocabulary), as an error.
template <class T>
[[noreturn]] void refuse_token(const MappedFile& bin, uint64_t first, uint64_t end, int64_t vocabulary) {
  uint64_t at = first;
  while (at + 1 < end && token_at<T>(bin.data(), at) >= 0 && token_at<T>(bin.data(), at) < vocabulary) ++at;
  throw DataError(
      Fault{bin.path(), at * sizeof(T), fmt::format("token id {}", token_at<T>(bin.data(), at)),
            fmt::format("ids from 0 to {} (vocabulary {})", vocabulary - 1, vocabulary),
            "the file is damaged or was made with another tokenizer: prepare it again, or give the model "
            "the vocabulary it was made with"});
}

}  // namespace

std::string token_file_prefix(const std::string& path) {
  for (const char* ending : {".idx", ".bin"}) {
    if (path.size() > 4 && path.compare(path.size() - 4, 4, ending) == 0)
      return path.substr(0, path.size() - 4);
  }
  return path;
}

TokenFile::TokenFile(const std::string& path)
    : prefix_(token_file_prefix(path)), bin_(prefix_ + ".bin"), index_(prefix_ + ".idx", bin_.size()) {
  if (const auto side_car = read_side_car(bin_.path())) {
    facts_ = *side_car;
    has_side_car_ = true;
    check_side_car();
  } else {
    facts_ = scan();
  }
}

void TokenFile::check_side_car() const {
  const auto compare = [this](const char* what, const std::string& said, const std::string& is) {
    if (said == is) return;
    throw DataError(Fault{side_car_path(bin_.path()),
                          {},
                          fmt::format("{} = {}", what, said),
                          fmt::format("{}, as {} has", is, index_.path()),
                          "the side-car belongs to other files: delete it or prepare the data again"});
  };
  compare("dtype", token_type_name(facts_.type), token_type_name(index_.type()));
  compare("tokens", fmt::format("{}", facts_.tokens), fmt::format("{}", index_.tokens()));
  compare("documents", fmt::format("{}", facts_.documents), fmt::format("{}", index_.documents()));
  const uint64_t blocks = (bin_.size() + hash_block_bytes - 1) / hash_block_bytes;
  compare("number of hashes", fmt::format("{}", facts_.block_hashes.size()), fmt::format("{}", blocks));
}

SideCar TokenFile::scan() const {
  SideCar facts;
  facts.type = index_.type();
  facts.tokens = index_.tokens();
  facts.documents = index_.documents();
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  with_type(index_.type(), [&](auto type) {
    using T = decltype(type);
    constexpr uint64_t block_tokens = hash_block_bytes / sizeof(T);
    for (uint64_t first = 0; first < tokens(); first += block_tokens) {
      const uint64_t end = std::min(first + block_tokens, tokens());
      const Extremes found = extremes<T>(bin_.data(), first, end);
      if (found.least < 0 || found.largest >= limit) refuse_token<T>(bin_, first, end, limit);
      facts.largest_token = std::max(facts.largest_token, found.largest);
      facts.block_hashes.push_back(hash_bytes(bin_.data() + first * sizeof(T), (end - first) * sizeof(T)));
    }
  });
  return facts;
}

void TokenFile::read(uint64_t first, std::span<int32_t> out, int64_t vocabulary) const {
  if (out.size() > tokens() || first > tokens() - out.size()) {
    throw std::logic_error(fmt::format("{}: tokens {} to {} asked for, it has {}", bin_.path(), first,
                                       first + out.size(), tokens()));
  }
  with_type(index_.type(), [&](auto type) {
    using T = decltype(type);
    Extremes found;
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t token = token_at<T>(bin_.data(), first + i);
      found.least = std::min(found.least, token);
      found.largest = std::max(found.largest, token);
      out[i] = static_cast<int32_t>(token);
    }
    if (!out.empty() && (found.least < 0 || found.largest >= vocabulary)) {
      refuse_token<T>(bin_, first, first + out.size(), vocabulary);
    }
  });
}

void TokenFile::require_vocabulary(int64_t vocabulary) const {
  if (facts_.largest_token < vocabulary) return;
  throw DataError(
      Fault{bin_.path(),
            {},
            fmt::format("token ids up to {}", facts_.largest_token),
            fmt::format("ids from 0 to {} (vocabulary {})", vocabulary - 1, vocabulary),
            "give the model the vocabulary of the tokenizer that made the file, or prepare it again"});
}

void TokenFile::verify() const {
  const SideCar found = scan();
  for (size_t block = 0; block < found.block_hashes.size(); ++block) {
    if (found.block_hashes[block] == facts_.block_hashes[block]) continue;
    throw DataError(Fault{bin_.path(), block * hash_block_bytes,
                          fmt::format("a block with XXH3 {}", hash_hex(found.block_hashes[block])),
                          fmt::format("{}, as the side-car says", hash_hex(facts_.block_hashes[block])),
                          "the file changed since it was made: prepare it again"});
  }
  if (found.largest_token != facts_.largest_token) {
    throw DataError(Fault{side_car_path(bin_.path()),
                          {},
                          fmt::format("largest_token = {}", facts_.largest_token),
                          fmt::format("{}, as the file has", found.largest_token),
                          "prepare the data again"});
  }
}

}  // namespace penstock::data
