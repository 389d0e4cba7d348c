#include "data/bpe_trainer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "data/byte_alphabet.h"
#include "data/content_hash.h"
#include "data/data_error.h"
#include "data/pair_table.h"

namespace penstock::data {
namespace {

using WordList = std::vector<uint32_t>;  // places in the list of words, ascending

struct Word {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

// A pair that may be merged next, with the count and the words that were known when it was queued.
struct Queued {
  int64_t count = 0;
  TokenPair pair;
  WordList words;
};

bool comes_later(const std::unique_ptr<Queued>& a, const std::unique_ptr<Queued>& b) {
  if (a->count != b->count) return a->count < b->count;
  return a->pair.left != b->pair.left ? a->pair.left > b->pair.left : a->pair.right > b->pair.right;
}

class Merging {
 public:
  Merging(std::vector<Word> words, Vocabulary vocabulary)
      : words_(std::move(words)), vocabulary_(std::move(vocabulary)) {
    for (size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
      if (i >= vocabulary_.special.size()) ids_[vocabulary_.tokens[i]] = static_cast<int32_t>(i);
    }
    PairTable<WordList> where;
    for (uint32_t w = 0; w < words_.size(); ++w) {
      const Word& word = words_[w];
      for (size_t i = 0; i + 1 < word.tokens.size(); ++i)
        change(where, {word.tokens[i], word.tokens[i + 1]}, w, 1);
    }
    enqueue(where);
  }

  Vocabulary run(const BpeOptions& options, const BpeTrainer::Progress& progress) {
    const int64_t least = std::max<int64_t>(options.min_frequency, 1);
    std::vector<TokenPair> merges;
    PairTable<size_t> last_place;  // of a pair in merges
    while (static_cast<int64_t>(vocabulary_.tokens.size()) < options.vocabulary && !queue_.empty()) {
      std::unique_ptr<Queued> best = pop();
      const int64_t count = *counts_.find(best->pair);
      if (best->count != count) {  // other merges took some of its places meanwhile
        best->count = count;
        push(std::move(best));
        continue;
      }
      if (count < least) break;
      const int32_t merged = token_for(best->pair);
      last_place[best->pair] = merges.size();
      merges.push_back(best->pair);
      PairTable<WordList> where;
      for (const uint32_t w : best->words) merge_in_word(w, best->pair, merged, where);
      enqueue(where);
      if (progress && merges.size() % 64 == 0) {
        progress(static_cast<int64_t>(vocabulary_.tokens.size()), options.vocabulary);
      }
    }
    // A pair queued twice (its token arose in two ways) is merged twice; the later rank is the one that
    // counts.
    for (size_t i = 0; i < merges.size(); ++i) {
      if (*last_place.find(merges[i]) == i) vocabulary_.merges.push_back(merges[i]);
    }
    if (progress) progress(static_cast<int64_t>(vocabulary_.tokens.size()), options.vocabulary);
    return std::move(vocabulary_);
  }

 private:
  void push(std::unique_ptr<Queued> entry) {
    queue_.push_back(std::move(entry));
    std::push_heap(queue_.begin(), queue_.end(), comes_later);
  }

  std::unique_ptr<Queued> pop() {
    std::pop_heap(queue_.begin(), queue_.end(), comes_later);
    std::unique_ptr<Queued> best = std::move(queue_.back());
    queue_.pop_back();
    return best;
  }

  // Counts `pair` once more (or less) in word w; `where` collects the words in which it is new.
  void change(PairTable<WordList>& where, TokenPair pair, uint32_t w, int sign) {
    counts_[pair] += sign * words_[w].count;
    if (sign < 0) return;
    WordList& list = where[pair];
    if (list.empty() || list.back() != w) list.push_back(w);
  }

  void enqueue(const PairTable<WordList>& where) {
    where.for_each([this](TokenPair pair, const WordList& words) {
      const int64_t count = *counts_.find(pair);
      if (count > 0) push(std::make_unique<Queued>(Queued{count, pair, words}));
    });
  }

  int32_t token_for(TokenPair pair) {
    std::string bytes = vocabulary_.tokens[static_cast<size_t>(pair.left)] +
                        vocabulary_.tokens[static_cast<size_t>(pair.right)];
    const auto [place, fresh] = ids_.emplace(bytes, static_cast<int32_t>(vocabulary_.tokens.size()));
    if (fresh) vocabulary_.tokens.push_back(std::move(bytes));
    return place->second;
  }

  void merge_in_word(uint32_t w, TokenPair pair, int32_t merged, PairTable<WordList>& where) {
    std::vector<int32_t>& tokens = words_[w].tokens;
    size_t kept = 0;
    for (size_t i = 0; i < tokens.size(); ++kept) {
      if (i + 1 >= tokens.size() || tokens[i] != pair.left || tokens[i + 1] != pair.right) {
        tokens[kept] = tokens[i++];
        continue;
      }
      if (kept > 0) {
        change(where, {tokens[kept - 1], pair.left}, w, -1);
        change(where, {tokens[kept - 1], merged}, w, 1);
      }
      i += 2;
      if (i < tokens.size()) {
        change(where, {pair.right, tokens[i]}, w, -1);
        change(where, {merged, tokens[i]}, w, 1);
      }
      tokens[kept] = merged;
    }
    tokens.resize(kept);
  }

  std::vector<Word> words_;
  Vocabulary vocabulary_;
  std::unordered_map<std::string, int32_t> ids_;
  PairTable<int64_t> counts_;
  std::vector<std::unique_ptr<Queued>> queue_;
};

}  // namespace

size_t BpeTrainer::ChunkHash::operator()(std::string_view chunk) const {
  return hash_bytes(chunk.data(), chunk.size());
}

int64_t BpeTrainer::smallest_vocabulary(const BpeOptions& options) {
  return static_cast<int64_t>(options.special.size()) + 256;
}

BpeTrainer::BpeTrainer(BpeOptions options)
    : options_(std::move(options)), pattern_(gpt2_split_pattern), splitter_(pattern_) {
  if (options_.vocabulary < smallest_vocabulary(options_)) {
    throw DataError(
        fmt::format("vocabulary size: found {}, expected at least {} (the 256 bytes and {} special tokens); "
                    "ask for more tokens",
                    options_.vocabulary, smallest_vocabulary(options_), options_.special.size()));
  }
}

void BpeTrainer::add_text(std::string_view text) {
  bytes_ += text.size();
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    splitter_.split(line, [this](std::string_view chunk) {
      const auto found = counts_.find(chunk);
      if (found != counts_.end()) {
        ++found->second;
      } else {
        counts_.emplace(chunk, 1);
      }
    });
    text.remove_prefix(line.size());
  }
}

Vocabulary BpeTrainer::train(const Progress& progress) const {
  Vocabulary vocabulary;
  for (const std::string& text : options_.special) {
    vocabulary.special.push_back({static_cast<int32_t>(vocabulary.tokens.size()), text});
    vocabulary.tokens.push_back(text);
  }
  std::array<int32_t, 256> id_of_byte{};
  for (const uint8_t byte : bytes_in_alphabet_order()) {
    id_of_byte[byte] = static_cast<int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  }
  std::vector<Word> words;
  words.reserve(counts_.size());
  for (const auto& [chunk, count] : counts_) {
    Word word;
    word.count = count;
    for (const char byte : chunk) word.tokens.push_back(id_of_byte[static_cast<uint8_t>(byte)]);
    words.push_back(std::move(word));
  }
  return Merging(std::move(words), std::move(vocabulary)).run(options_, progress);
}

}  // namespace penstock::data
