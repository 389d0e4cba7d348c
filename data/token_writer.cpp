#include "data/token_writer.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>

#include "data/data_error.h"
#include "data/index_layout.h"

namespace penstock::data {
namespace {

template <class T>
void put_number(FileWriter& file, T value) {
  file.write(&value, sizeof(value));
}

}  // namespace

TokenWriter::TokenWriter(const std::string& prefix, int64_t vocabulary, const std::string& tokenizer,
                         int32_t sequence_limit)
    : prefix_(prefix), bin_(prefix + ".bin"), sequence_limit_(sequence_limit) {
  facts_.type = token_type_for(vocabulary);
  facts_.vocabulary = vocabulary;
  facts_.tokenizer = tokenizer;
}

// The hash is of blocks of the file, whatever the pieces in which it is written.
void TokenWriter::put(const void* bytes, size_t size) {
  bin_.write(bytes, size);
  const auto* from = static_cast<const std::byte*>(bytes);
  while (size > 0) {
    const size_t part = std::min<uint64_t>(size, hash_block_bytes - block_filled_);
    block_.bytes(from, part);
    block_filled_ += part;
    if (block_filled_ == hash_block_bytes) {
      facts_.block_hashes.push_back(block_.value());
      block_.reset();
      block_filled_ = 0;
    }
    from += part;
    size -= part;
  }
}

void TokenWriter::add(std::span<const int32_t> tokens) {
  if (tokens.empty()) return;
  const auto [least, largest] = std::minmax_element(tokens.begin(), tokens.end());
  if (*least < 0 || *largest >= facts_.vocabulary) {
    throw DataError(Fault{bin_.path(), bin_.offset(),
                          fmt::format("token id {}", *least < 0 ? *least : *largest),
                          fmt::format("ids from 0 to {}", facts_.vocabulary - 1),
                          "the tokens were made with another vocabulary"});
  }
  if (facts_.type == TokenType::uint16) {
    narrow_.assign(tokens.begin(), tokens.end());
    put(narrow_.data(), narrow_.size() * sizeof(uint16_t));
  } else {
    put(tokens.data(), tokens.size_bytes());
  }
  facts_.tokens += tokens.size();
  for (size_t left = tokens.size(); left > 0;) {
    const auto part = std::min(left, static_cast<size_t>(sequence_limit_ - length_));
    length_ += static_cast<int32_t>(part);
    left -= part;
    if (length_ == sequence_limit_) end_sequence();
  }
  facts_.largest_token = std::max<int64_t>(facts_.largest_token, *largest);
}

void TokenWriter::end_sequence() {
  if (length_ == 0) return;
  lengths_.push_back(length_);
  length_ = 0;
}

void TokenWriter::end_document() {
  end_sequence();
  const auto sequences = static_cast<int64_t>(lengths_.size());
  if (document_ends_.back() == sequences) return;
  document_ends_.push_back(sequences);
  ++facts_.documents;
}

void TokenWriter::finish() {
  end_document();
  if (block_filled_ > 0) facts_.block_hashes.push_back(block_.value());
  FileWriter index(prefix_ + ".idx");
  index.write(index_layout::magic, sizeof(index_layout::magic));
  put_number<uint64_t>(index, index_layout::version);
  put_number<uint8_t>(index, static_cast<uint8_t>(facts_.type));
  put_number<uint64_t>(index, lengths_.size());
  put_number<uint64_t>(index, document_ends_.size());
  index.write(lengths_.data(), lengths_.size() * sizeof(int32_t));
  int64_t offset = 0;
  for (const int32_t length : lengths_) {
    put_number<int64_t>(index, offset);
    offset += length * token_bytes(facts_.type);
  }
  index.write(document_ends_.data(), document_ends_.size() * sizeof(int64_t));
  // All that can fail for want of space comes before the first file is replaced.
  index.sync();
  bin_.sync();
  // A side-car of files replaced here would describe the wrong ones for a moment.
  const std::string old = side_car_path(bin_.path());
  if (::unlink(old.c_str()) != 0 && errno != ENOENT) throw system_error(old, "remove it", errno);
  bin_.commit();
  index.commit();
  write_side_car(bin_.path(), facts_);
}

}  // namespace penstock::data
