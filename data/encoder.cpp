#include "data/encoder.h"

#include <algorithm>
#include <functional>

#include "data/content_hash.h"

namespace penstock::data {
namespace {

constexpr size_t cached_chunk_bytes = 64;
constexpr size_t cached_chunks = size_t{1} << 18;

}  // namespace

size_t Encoder::ChunkHash::operator()(std::string_view chunk) const {
  return hash_bytes(chunk.data(), chunk.size());
}

Encoder::Encoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer), splitter_(tokenizer.split_pattern()) {}

std::vector<int32_t> Encoder::encode(std::string_view text, SpecialText special) {
  std::vector<int32_t> out;
  encode(text, out, special);
  return out;
}

void Encoder::encode(std::string_view text, std::vector<int32_t>& out, SpecialText special) {
  if (special == SpecialText::plain) {
    encode_plain(text, out);
    return;
  }
  const std::vector<SpecialToken>& tokens = tokenizer_->vocabulary().special;
  const auto find = [&](size_t which, size_t from) {
    return tokens[which].text.empty() ? std::string_view::npos : text.find(tokens[which].text, from);
  };
  std::vector<size_t> places(tokens.size());  // of each special text's next appearance
  for (size_t i = 0; i < tokens.size(); ++i) places[i] = find(i, 0);
  for (size_t at = 0; at < text.size();) {
    // The first special text; of two at one place the longer.
    const SpecialToken* first = nullptr;
    size_t place = text.size();
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (places[i] < at) places[i] = find(i, at);
      if (places[i] > place || places[i] == std::string_view::npos) continue;
      if (places[i] == place && first != nullptr && tokens[i].text.size() <= first->text.size()) continue;
      first = &tokens[i];
      place = places[i];
    }
    encode_plain(text.substr(at, place - at), out);
    at = place;
    if (first != nullptr) {
      out.push_back(first->id);
      at += first->text.size();
    }
  }
}

void Encoder::encode_plain(std::string_view text, std::vector<int32_t>& out) {
  splitter_.split(text, [&](std::string_view chunk) { encode_chunk(chunk, out); });
}

void Encoder::encode_chunk(std::string_view chunk, std::vector<int32_t>& out) {
  if (chunk.size() == 1) {
    out.push_back(tokenizer_->byte_token(static_cast<uint8_t>(chunk[0])));
    return;
  }
  if (chunk.size() > cached_chunk_bytes) {
    merge_chunk(chunk, out);
    return;
  }
  const auto hit = cache_.find(chunk);
  if (hit != cache_.end()) {
    const auto begin = cached_tokens_.begin() + hit->second.begin;
    out.insert(out.end(), begin, begin + hit->second.count);
    return;
  }
  if (cache_.size() >= cached_chunks) {
    cache_.clear();
    cached_tokens_.clear();
  }
  const size_t before = out.size();
  merge_chunk(chunk, out);
  cache_.emplace(chunk, CachedRange{static_cast<uint32_t>(cached_tokens_.size()),
                                    static_cast<uint32_t>(out.size() - before)});
  cached_tokens_.insert(cached_tokens_.end(), out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
}

void Encoder::add_candidate(int32_t left) {
  const Symbol& symbol = symbols_[static_cast<size_t>(left)];
  if (symbol.next < 0) return;
  const TokenPair pair{symbol.token, symbols_[static_cast<size_t>(symbol.next)].token};
  const Tokenizer::Merged* merged = tokenizer_->merge_of(pair);
  if (merged == nullptr) return;
  const uint64_t order = (uint64_t{static_cast<uint32_t>(merged->rank)} << 32) | static_cast<uint32_t>(left);
  heap_.push_back({order, pair, merged->token});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

// Merges the pair of lowest rank first, the leftmost of equals, until none is left: O(n log n) in the chunk's
// bytes. A candidate in the heap is stale when one of its two symbols was merged meanwhile.
void Encoder::merge_chunk(std::string_view chunk, std::vector<int32_t>& out) {
  symbols_.clear();
  heap_.clear();
  const auto count = static_cast<int32_t>(chunk.size());
  for (int32_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(chunk[static_cast<size_t>(i)]);
    symbols_.push_back({tokenizer_->byte_token(byte), i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (int32_t i = 0; i + 1 < count; ++i) add_candidate(i);
  constexpr int32_t dead = -1;
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const Candidate best = heap_.back();
    heap_.pop_back();
    const auto place = static_cast<int32_t>(best.order & 0xFFFFFFFFU);
    Symbol& left = symbols_[static_cast<size_t>(place)];
    if (left.token != best.pair.left || left.next < 0) continue;
    Symbol& right = symbols_[static_cast<size_t>(left.next)];
    if (right.token != best.pair.right) continue;
    left.token = best.merged;
    left.next = right.next;
    right.token = dead;
    if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = place;
    if (left.previous >= 0) add_candidate(left.previous);
    add_candidate(place);
  }
  for (int32_t at = 0; at >= 0; at = symbols_[static_cast<size_t>(at)].next) {
    out.push_back(symbols_[static_cast<size_t>(at)].token);
  }
}

}  // namespace penstock::data
