#include "data/encoder.h"

#include <algorithm>
#include <functional>

#include "data/content_hash.h"

namespace penstock::data {
namespace {

constexpr size_t cached_chunk_bytes = 64;

}  // namespace

size_t Encoder::ChunkHash::operator()(std::string_view chunk) const {
  return hash_bytes(chunk.data(), chunk.size());
}

Encoder::Encoder(const Tokenizer& tokenizer, size_t cached_chunks)
    : tokenizer_(&tokenizer), cached_chunks_(cached_chunks), splitter_(tokenizer.split_pattern()) {}

std::vector<int32_t> Encoder::encode(std::string_view text, SpecialText special) {
  std::vector<int32_t> out;
  encode(text, out, special);
  return out;
}

// Puts the special tokens of one kind in place and gives what lies between them to `rest`.
template <class Rest>
void Encoder::take_special(std::string_view text, std::vector<int32_t>& out, SpecialText special,
                           bool normalized, Rest&& rest) {
  const SpecialFinder& finder = tokenizer_->special_finder();
  for (size_t at = 0; at < text.size();) {
    const SpecialFinder::Found found = finder.find(text, at, special, normalized);
    rest(text.substr(at, found.size == 0 ? std::string_view::npos : found.place - at));
    if (found.size == 0) return;
    out.push_back(found.id);
    at = found.place + found.size;
  }
}

void Encoder::encode(std::string_view text, std::vector<int32_t>& out, SpecialText special) {
  take_special(text, out, special, false, [&](std::string_view raw) {
    const std::string_view normal = tokenizer_->vocabulary().nfc ? normal_form_.apply(raw) : raw;
    take_special(normal, out, special, true, [&](std::string_view rest) { encode_plain(rest, out); });
  });
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
    encode_new(chunk, out);
    return;
  }
  const auto hit = cache_.find(chunk);
  if (hit != cache_.end()) {
    const auto begin = cached_tokens_.begin() + hit->second.begin;
    out.insert(out.end(), begin, begin + hit->second.count);
    return;
  }
  if (cache_.size() >= cached_chunks_) {
    cache_.clear();
    cached_tokens_.clear();
  }
  const size_t before = out.size();
  encode_new(chunk, out);
  cache_.emplace(chunk, CachedRange{static_cast<uint32_t>(cached_tokens_.size()),
                                    static_cast<uint32_t>(out.size() - before)});
  cached_tokens_.insert(cached_tokens_.end(), out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
}

void Encoder::encode_new(std::string_view chunk, std::vector<int32_t>& out) {
  if (const auto whole = tokenizer_->whole_token(chunk)) {
    out.push_back(*whole);
  } else {
    merge_chunk(chunk, out);
  }
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
