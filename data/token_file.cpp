#include "data/token_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>

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
    case TokenType::uint32:
      return visit(uint32_t{});
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

// The first token of [first, end) outside [0, vocabulary), as an error.
template <class T>
[[noreturn]] void refuse_token(const MappedFile& bin, uint64_t begin, uint64_t first, uint64_t end,
                               int64_t vocabulary) {
  const std::byte* data = bin.data() + begin;
  uint64_t at = first;
  while (at + 1 < end && token_at<T>(data, at) >= 0 && token_at<T>(data, at) < vocabulary) ++at;
  throw DataError(Fault{
      bin.path(), begin + at * sizeof(T), fmt::format("token id {} (token {})", token_at<T>(data, at), at),
      fmt::format("ids from 0 to {} (vocabulary {})", vocabulary - 1, vocabulary),
      "the file is damaged or was made with another tokenizer: prepare it again, or give the model "
      "the vocabulary it was made with"});
}

// Documents of `count` tokens that `mark` separates.
template <class T>
uint64_t count_documents(const std::byte* data, uint64_t count, const DocumentMark& mark) {
  if (count == 0) return 0;
  uint64_t marks = 0;
  for (uint64_t at = 0; at < count; ++at) {
    if (token_at<T>(data, at) == mark.token) ++marks;
  }
  const bool at_border = token_at<T>(data, mark.in_front ? 0 : count - 1) == mark.token;
  return marks + (at_border ? 0 : 1);
}

std::string first_bytes(const MappedFile& bin) {
  std::string text;
  for (uint64_t at = 0; at < std::min<uint64_t>(bin.size(), 4); ++at)
    text += fmt::format(" {:02X}", static_cast<unsigned>(bin.data()[at]));
  return text.empty() ? "an empty file" : "a file that begins with" + text;
}

// A text under the name of token files is what beginners give.
std::string checked_bin_path(const std::string& path, const std::string& prefix) {
  std::string bin = prefix + ".bin";
  std::error_code error;
  if (std::filesystem::exists(bin, error) || !std::filesystem::is_regular_file(path, error)) return bin;
  const std::filesystem::path text(path);
  throw DataError(
      Fault{path,
            {},
            "a file that holds no tokens",
            fmt::format("the prefix of token files ({} is not there)", bin),
            fmt::format("make token files of a text, and name those: penstock data prepare --input "
                        "{} --tokenizer tokenizer.json --output {}",
                        path, (text.parent_path() / text.stem()).string())});
}

}  // namespace

std::string token_file_prefix(const std::string& path) {
  for (const char* ending : {".idx", ".bin"}) {
    if (path.size() > 4 && path.compare(path.size() - 4, 4, ending) == 0)
      return path.substr(0, path.size() - 4);
  }
  return path;
}

TokenFile::TokenFile(const std::string& path, const std::optional<HeaderlessFile>& headerless)
    : prefix_(token_file_prefix(path)), bin_(checked_bin_path(path, prefix_)) {
  const auto side_car = read_side_car(bin_.path());
  open(side_car, headerless);
  if (side_car) {
    facts_ = *side_car;
    has_side_car_ = true;
    check_side_car();
  } else {
    facts_ = scan();
  }
}

void TokenFile::open(const std::optional<SideCar>& side_car,
                     const std::optional<HeaderlessFile>& headerless) {
  const std::string index = prefix_ + ".idx";
  const bool said_to_have_one = side_car && side_car->format == TokenFormat::megatron;
  if (said_to_have_one || ::access(index.c_str(), F_OK) == 0) {
    index_.emplace(index, bin_.size());
    layout_ = {TokenFormat::megatron, index_->type(), 0, index_->tokens(), std::nullopt};
    return;
  }
  if (side_car && side_car->format == TokenFormat::headerless) {
    layout_ = headerless_layout(bin_, side_car->type);
    layout_.mark = side_car->mark;
    return;
  }
  if (const auto layout = llm_c_layout(bin_)) {
    layout_ = *layout;
    if (side_car && side_car->mark) layout_.mark = side_car->mark;
    return;
  }
  if (headerless) {
    layout_ = headerless_layout(bin_, headerless->type);
    layout_.mark = headerless->mark;
    return;
  }
  throw DataError(
      Fault{bin_.path(), 0, first_bytes(bin_),
            fmt::format("{} beside it (Megatron), llm.c's header (magic 20240520 or 20240801), or a "
                        "side-car that says what it is",
                        index),
            fmt::format("of a file of nothing but tokens, such as nanoGPT's, say it once: penstock data "
                        "inspect {} --headerless uint16 --write-side-car",
                        bin_.path())});
}

void TokenFile::check_side_car() const {
  const auto compare = [this](const char* what, const std::string& said, const std::string& is) {
    if (said == is) return;
    throw DataError(Fault{side_car_path(bin_.path()),
                          {},
                          fmt::format("{} = {}", what, said),
                          fmt::format("{}, as {} has", is, index_ ? index_->path() : bin_.path()),
                          "the side-car belongs to other files: delete it or prepare the data again"});
  };
  compare("format", token_format_name(facts_.format), token_format_name(format()));
  compare("dtype", token_type_name(facts_.type), token_type_name(type()));
  compare("tokens", fmt::format("{}", facts_.tokens), fmt::format("{}", tokens()));
  if (index_)
    compare("documents", fmt::format("{}", facts_.documents), fmt::format("{}", index_->documents()));
  const uint64_t blocks = (bin_.size() - layout_.begin + hash_block_bytes - 1) / hash_block_bytes;
  compare("number of hashes", fmt::format("{}", facts_.block_hashes.size()), fmt::format("{}", blocks));
}

SideCar TokenFile::scan() const {
  SideCar facts;
  facts.format = format();
  facts.mark = layout_.mark;
  facts.type = type();
  facts.tokens = tokens();
  facts.documents = index_ ? index_->documents() : std::min<uint64_t>(tokens(), 1);
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  with_type(type(), [&](auto stored) {
    using T = decltype(stored);
    constexpr uint64_t block_tokens = hash_block_bytes / sizeof(T);
    for (uint64_t first = 0; first < tokens(); first += block_tokens) {
      const uint64_t end = std::min(first + block_tokens, tokens());
      const Extremes found = extremes<T>(data(), first, end);
      if (found.least < 0 || found.largest >= limit) refuse_token<T>(bin_, layout_.begin, first, end, limit);
      facts.largest_token = std::max(facts.largest_token, found.largest);
      facts.block_hashes.push_back(hash_bytes(data() + first * sizeof(T), (end - first) * sizeof(T)));
    }
    if (layout_.mark) facts.documents = count_documents<T>(data(), tokens(), *layout_.mark);
  });
  return facts;
}

bool TokenFile::lacks_marks() const {
  if (!layout_.mark || facts_.documents != 1) return false;
  return with_type(type(), [&](auto stored) {
    using T = decltype(stored);
    return token_at<T>(data(), layout_.mark->in_front ? 0 : tokens() - 1) != layout_.mark->token;
  });
}

void TokenFile::read(uint64_t first, std::span<int32_t> out, int64_t vocabulary) const {
  if (out.size() > tokens() || first > tokens() - out.size()) {
    throw std::logic_error(fmt::format("{}: tokens {} to {} asked for, it has {}", bin_.path(), first,
                                       first + out.size(), tokens()));
  }
  with_type(type(), [&](auto stored) {
    using T = decltype(stored);
    Extremes found;
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t token = token_at<T>(data(), first + i);
      found.least = std::min(found.least, token);
      found.largest = std::max(found.largest, token);
      out[i] = static_cast<int32_t>(token);
    }
    if (!out.empty() && (found.least < 0 || found.largest >= vocabulary)) {
      refuse_token<T>(bin_, layout_.begin, first, first + out.size(), vocabulary);
    }
  });
}

size_t TokenFile::document_starts(uint64_t first, std::span<int32_t> out) const {
  size_t starts = 0;
  if (index_) {
    uint64_t last = ~uint64_t{0};  // an empty document starts where the next one does
    for (uint64_t d = index_->first_document_from(first); d < index_->documents(); ++d) {
      const uint64_t start = index_->document_start(d);
      if (start >= first + out.size()) break;
      if (start != last) out[starts++] = static_cast<int32_t>(start - first);
      last = start;
    }
    return starts;
  }
  with_type(type(), [&](auto stored) {
    using T = decltype(stored);
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t at = first + i;
      const bool starts_one =
          at == 0 ||
          (layout_.mark && token_at<T>(data(), layout_.mark->in_front ? at : at - 1) == layout_.mark->token);
      if (starts_one) out[starts++] = static_cast<int32_t>(i);
    }
  });
  return starts;
}

void TokenFile::require_vocabulary(int64_t vocabulary) const {
  if (facts_.largest_token < vocabulary) return;
  std::string place;
  with_type(type(), [&](auto stored) {
    using T = decltype(stored);
    uint64_t at = 0;
    while (at < tokens() && token_at<T>(data(), at) < vocabulary) ++at;
    if (at < tokens()) {
      place = fmt::format(", the first above it {} at byte {} (token {})", token_at<T>(data(), at),
                          layout_.begin + at * sizeof(T), at);
    }
  });
  throw DataError(
      Fault{bin_.path(),
            {},
            fmt::format("token ids up to {}{}", facts_.largest_token, place),
            fmt::format("ids from 0 to {} (vocabulary {})", vocabulary - 1, vocabulary),
            "give the model the vocabulary of the tokenizer that made the file, or prepare it again"});
}

void TokenFile::verify() const {
  const SideCar found = scan();
  for (size_t block = 0; block < found.block_hashes.size(); ++block) {
    if (found.block_hashes[block] == facts_.block_hashes[block]) continue;
    throw DataError(Fault{bin_.path(), layout_.begin + block * hash_block_bytes,
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
  if (found.documents != facts_.documents) {
    throw DataError(Fault{side_car_path(bin_.path()),
                          {},
                          fmt::format("documents = {}", facts_.documents),
                          fmt::format("{}, as the file has", found.documents),
                          "delete the side-car or prepare the data again"});
  }
}

}  // namespace penstock::data
