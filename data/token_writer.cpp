#include "data/token_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>

#include "data/byte_source.h"
#include "data/data_error.h"
#include "data/index_layout.h"

namespace penstock::data {
namespace {

constexpr size_t read_bytes = size_t{1} << 20;

template <class T>
void put_number(FileWriter& file, T value) {
  file.write(&value, sizeof(value));
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw write_error(path, "remove it", errno);
}

}  // namespace

TokenWriter::TokenWriter(const std::string& prefix, int64_t vocabulary, const std::string& tokenizer,
                         int32_t sequence_limit)
    : prefix_(prefix), sequence_limit_(sequence_limit) {
  bin_.emplace(prefix + ".bin");
  lengths_.emplace(prefix + ".lengths");
  facts_.type = token_type_for(vocabulary);
  facts_.vocabulary = vocabulary;
  facts_.tokenizer = tokenizer;
}

TokenWriter::TokenWriter(const std::string& prefix, int64_t vocabulary, const std::string& tokenizer,
                         const TokenWriterState& state, int32_t sequence_limit)
    : prefix_(prefix),
      sequence_limit_(sequence_limit),
      sequences_(state.sequences),
      last_length_(state.last_length),
      length_(state.length) {
  facts_.type = token_type_for(vocabulary);
  facts_.vocabulary = vocabulary;
  facts_.tokenizer = tokenizer;
  facts_.tokens = state.tokens;
  facts_.documents = state.documents;
  facts_.largest_token = state.largest_token;
  facts_.block_hashes = state.block_hashes;
  const uint64_t bytes = state.tokens * static_cast<uint64_t>(token_bytes(facts_.type));
  const std::string bin = prefix + ".bin";
  std::string written = bin + ".partial";
  if (::access(written.c_str(), F_OK) == 0) {
    bin_.emplace(bin, bytes);
  } else if (has_appeared(bytes)) {
    written = bin;
  } else {
    throw DataError(Fault{written,
                          {},
                          "no such file",
                          fmt::format("the first {} bytes of {}", bytes, bin),
                          "begin again (--restart)"});
  }
  // The hash of the block that is not whole is not a number that can be kept: its bytes are read again.
  ByteSource source(written);
  source.seek(state.block_hashes.size() * hash_block_bytes);
  std::vector<char> buffer(read_bytes);
  while (source.offset() < bytes) {
    const size_t wanted = std::min<uint64_t>(buffer.size(), bytes - source.offset());
    const size_t count = source.read(buffer.data(), wanted);
    if (count == 0) break;
    hash(buffer.data(), count);
  }
  const std::string lengths = prefix + ".lengths";
  if (bin_ || !has_finished()) {
    lengths_.emplace(lengths, sequences_ * sizeof(int32_t));
  } else {
    remove_file(lengths + ".partial");
  }
}

bool TokenWriter::has_appeared(uint64_t bytes) const {
  std::error_code error;
  return std::filesystem::file_size(prefix_ + ".bin", error) == bytes && !error;
}

// finish() removes an older side-car before the .bin gets its name, and writes this one last.
bool TokenWriter::has_finished() const {
  const auto side_car = read_side_car(prefix_ + ".bin");
  return side_car && side_car->tokens == facts_.tokens && ::access((prefix_ + ".idx").c_str(), F_OK) == 0;
}

// The hash is of blocks of the file, whatever the pieces in which it is written.
void TokenWriter::hash(const char* bytes, size_t size) {
  while (size > 0) {
    const size_t part = std::min<uint64_t>(size, hash_block_bytes - block_filled_);
    block_.bytes(bytes, part);
    block_filled_ += part;
    if (block_filled_ == hash_block_bytes) {
      facts_.block_hashes.push_back(block_.value());
      block_.reset();
      block_filled_ = 0;
    }
    bytes += part;
    size -= part;
  }
}

void TokenWriter::put(const void* bytes, size_t size) {
  bin_->write(bytes, size);
  hash(static_cast<const char*>(bytes), size);
}

void TokenWriter::add(std::span<const int32_t> tokens) {
  if (tokens.empty()) return;
  const auto [least, largest] = std::minmax_element(tokens.begin(), tokens.end());
  if (*least < 0 || *largest >= facts_.vocabulary) {
    throw DataError(Fault{bin_->path(), bin_->offset(),
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

void TokenWriter::put_length(int32_t length, bool ends_document) {
  put_number<int32_t>(*lengths_, ends_document ? length : -length);
  ++sequences_;
}

void TokenWriter::end_sequence() {
  if (length_ == 0) return;
  if (last_length_ > 0) put_length(last_length_, false);
  last_length_ = length_;
  length_ = 0;
}

void TokenWriter::end_document() {
  end_sequence();
  if (last_length_ == 0) return;
  put_length(last_length_, true);
  last_length_ = 0;
  ++facts_.documents;
}

TokenWriterState TokenWriter::commit() {
  if (bin_) bin_->sync();
  if (lengths_) lengths_->sync();
  std::vector<uint64_t> whole = facts_.block_hashes;
  whole.resize(facts_.tokens * static_cast<uint64_t>(token_bytes(facts_.type)) / hash_block_bytes);
  return {facts_.tokens, facts_.documents, facts_.largest_token, whole, sequences_, last_length_, length_};
}

void TokenWriter::keep() {
  if (bin_) bin_->keep();
  if (lengths_) lengths_->keep();
}

template <class Visit>
void TokenWriter::each_length(Visit&& visit) const {
  ByteSource source(lengths_->partial_path());
  std::vector<int32_t> lengths(read_bytes / sizeof(int32_t));
  for (uint64_t left = sequences_; left > 0;) {
    const size_t wanted = std::min<uint64_t>(lengths.size(), left) * sizeof(int32_t);
    auto* const into = reinterpret_cast<char*>(lengths.data());
    size_t filled = 0;
    while (filled < wanted) {
      const size_t count = source.read(into + filled, wanted - filled);
      if (count == 0)
        throw DataError(Fault{source.path(), source.offset(), "the end of the file",
                              fmt::format("{} lengths", sequences_), "begin again"});
      filled += count;
    }
    for (size_t i = 0; i < wanted / sizeof(int32_t); ++i) visit(std::abs(lengths[i]), lengths[i] > 0);
    left -= wanted / sizeof(int32_t);
  }
}

void TokenWriter::write_index(FileWriter& index) const {
  index.write(index_layout::magic, sizeof(index_layout::magic));
  put_number<uint64_t>(index, index_layout::version);
  put_number<uint8_t>(index, static_cast<uint8_t>(facts_.type));
  put_number<uint64_t>(index, sequences_);
  put_number<uint64_t>(index, facts_.documents + 1);
  each_length([&](int32_t length, bool /*ends_document*/) { put_number<int32_t>(index, length); });
  int64_t offset = 0;
  each_length([&](int32_t length, bool /*ends_document*/) {
    put_number<int64_t>(index, offset);
    offset += length * token_bytes(facts_.type);
  });
  put_number<int64_t>(index, 0);
  int64_t sequence = 0;
  each_length([&](int32_t /*length*/, bool ends_document) {
    ++sequence;
    if (ends_document) put_number<int64_t>(index, sequence);
  });
}

void TokenWriter::finish() {
  if (!lengths_) return;  // another process did all this before it ended
  end_document();
  if (block_filled_ > 0) facts_.block_hashes.push_back(block_.value());
  block_filled_ = 0;
  lengths_->sync();
  FileWriter index(prefix_ + ".idx");
  write_index(index);
  // All that can fail for want of space comes before the first file is replaced.
  index.sync();
  const std::string bin = prefix_ + ".bin";
  if (bin_) {
    bin_->sync();
    // A side-car of files replaced here would describe the wrong ones for a moment.
    remove_file(side_car_path(bin));
    bin_->commit();
  }
  index.commit();
  write_side_car(bin, facts_);
  lengths_.reset();
  remove_file(prefix_ + ".lengths.partial");
}

}  // namespace penstock::data
