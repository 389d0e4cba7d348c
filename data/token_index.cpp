#include "data/token_index.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/index_layout.h"

namespace penstock::data {
namespace {

using namespace index_layout;  // NOLINT(google-build-using-namespace): names of the file's fields

// The arrays are not aligned.
template <class T>
T load(const MappedFile& file, uint64_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

[[noreturn]] void fail(const MappedFile& file, uint64_t offset, const std::string& found,
                       const std::string& expected,
                       const char* advice = "prepare the data again (penstock data prepare)") {
  throw DataError(Fault{file.path(), offset, found, expected, advice});
}

std::string hex_of(const std::byte* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += fmt::format("{}{:02X}", i == 0 ? "" : " ", static_cast<unsigned>(bytes[i]));
  }
  return text;
}

}  // namespace

uint64_t TokenIndex::lengths_at() const {
  return header_bytes;
}
uint64_t TokenIndex::offsets_at() const {
  return header_bytes + 4 * sequences_;
}
uint64_t TokenIndex::documents_at() const {
  return header_bytes + 12 * sequences_;
}

TokenIndex::TokenIndex(const std::string& path, uint64_t bin_bytes) : file_(path) {
  check_header();
  check_sizes();
  check_sequences(bin_bytes);
  check_documents();
}

void TokenIndex::check_header() {
  if (file_.size() < header_bytes) {
    fail(file_, file_.size(), fmt::format("the end of the file after {} bytes", file_.size()),
         fmt::format("a header of {} bytes", header_bytes));
  }
  if (std::memcmp(file_.data(), magic, sizeof(magic)) != 0) {
    fail(file_, 0, hex_of(file_.data(), sizeof(magic)),
         hex_of(reinterpret_cast<const std::byte*>(magic), sizeof(magic)) + " (a Megatron index)",
         "give the prefix of an .idx/.bin pair");
  }
  const auto stored_version = load<uint64_t>(file_, version_at);
  if (stored_version != version) {
    fail(file_, version_at, fmt::format("version {}", stored_version), fmt::format("version {}", version),
         "convert the data or prepare it again (penstock data prepare)");
  }
  const auto code = load<uint8_t>(file_, type_at);
  if (code == 6 || code == 7) {
    fail(file_, type_at, code == 6 ? "type 6 (float64)" : "type 7 (float32)",
         "an integer type (1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16)", "token ids are integers");
  }
  if (code == 0 || code > 8) {
    fail(file_, type_at, fmt::format("type {}", code),
         "a known type (1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16)");
  }
  type_ = static_cast<TokenType>(code);
}

void TokenIndex::check_sizes() {
  sequences_ = load<uint64_t>(file_, sequences_count_at);
  const auto document_entries = load<uint64_t>(file_, documents_count_at);
  // Divisions, not products: the counts are untrusted and a product could wrap round.
  const uint64_t room = file_.size() - header_bytes;
  if (sequences_ > room / 12) {
    fail(file_, sequences_count_at, fmt::format("{} sequences", sequences_),
         fmt::format("at most {}, which a file of {} bytes can describe", room / 12, file_.size()));
  }
  if (document_entries == 0) {
    fail(file_, documents_count_at, "0 document entries", "at least 1 (documents + 1)");
  }
  const uint64_t rest = room - 12 * sequences_;
  if (document_entries > rest / 8) {
    fail(file_, documents_count_at, fmt::format("{} document entries", document_entries),
         fmt::format("at most {}, which a file of {} bytes can hold", rest / 8, file_.size()));
  }
  documents_ = document_entries - 1;
  const uint64_t plain = header_bytes + 12 * sequences_ + 8 * document_entries;
  if (file_.size() != plain && file_.size() != plain + sequences_) {
    fail(file_, std::min(file_.size(), plain), fmt::format("a file of {} bytes", file_.size()),
         fmt::format("{} bytes, or {} with a mode for each sequence", plain, plain + sequences_));
  }
}

void TokenIndex::check_sequences(uint64_t bin_bytes) {
  const auto item = static_cast<uint64_t>(token_bytes(type_));
  uint64_t end = 0;  // of the sequences so far, bytes in .bin
  for (uint64_t s = 0; s < sequences_; ++s) {
    const auto length = load<int32_t>(file_, lengths_at() + 4 * s);
    const auto offset = load<int64_t>(file_, offsets_at() + 8 * s);
    if (length < 0) {
      fail(file_, lengths_at() + 4 * s, fmt::format("length {} of sequence {}", length, s),
           "0 or more tokens");
    }
    if (offset < 0 || static_cast<uint64_t>(offset) != end) {
      fail(file_, offsets_at() + 8 * s, fmt::format("offset {} of sequence {}", offset, s),
           fmt::format("{}, the end of the sequence before it (sequences lie one behind the other)", end));
    }
    // end ≤ bin_bytes here, so the subtraction cannot wrap; length · item < 2³⁴.
    const uint64_t bytes = static_cast<uint64_t>(length) * item;
    if (bytes > bin_bytes - end) {
      fail(file_, lengths_at() + 4 * s,
           fmt::format("sequence {} of {} tokens from byte {} on", s, length, end),
           fmt::format("its end within the .bin of {} bytes", bin_bytes),
           "the .bin is truncated or belongs to another index: prepare the data again");
    }
    end += bytes;
  }
  if (end != bin_bytes) {
    fail(file_, offsets_at() + 8 * sequences_, fmt::format("sequences that end at byte {} of the .bin", end),
         fmt::format("its size, {} bytes", bin_bytes),
         "the .bin belongs to another index or its writing was cut short: prepare the data again");
  }
  tokens_ = end / item;
}

void TokenIndex::check_documents() const {
  int64_t before = 0;
  for (uint64_t d = 0; d <= documents_; ++d) {
    const uint64_t at = documents_at() + 8 * d;
    const auto sequence = load<int64_t>(file_, at);
    if (d == 0 && sequence != 0) fail(file_, at, fmt::format("first document entry {}", sequence), "0");
    if (sequence < before) {
      fail(file_, at, fmt::format("document entry {} after {}", sequence, before),
           "entries that do not fall");
    }
    if (static_cast<uint64_t>(sequence) > sequences_) {
      fail(file_, at, fmt::format("document entry {}", sequence),
           fmt::format("at most {} (sequences)", sequences_));
    }
    before = sequence;
  }
  if (static_cast<uint64_t>(before) != sequences_) {
    fail(file_, documents_at() + 8 * documents_, fmt::format("last document entry {}", before),
         fmt::format("{} (sequences)", sequences_));
  }
}

uint64_t TokenIndex::document_start(uint64_t document) const {
  const auto sequence = load<uint64_t>(file_, documents_at() + 8 * document);
  if (sequence == sequences_) return tokens_;
  return load<uint64_t>(file_, offsets_at() + 8 * sequence) / static_cast<uint64_t>(token_bytes(type_));
}

uint64_t TokenIndex::first_document_from(uint64_t token) const {
  uint64_t low = 0;
  uint64_t high = documents_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (document_start(middle) < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace penstock::data
