#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_file.h"
#include "data/tokenizer.h"
#include "kernels/transport/world.h"
#include "trainer/job/job.h"

namespace penstock {

/// What a model is evaluated on: one stream of tokens with document borders.
class EvaluationText {
 public:
  /// A token file (`path`, or `path`.bin), or a text: .jsonl with a "text" a line, else one document; "-":
  /// standard input. A text is encoded in memory: rank 0 reads it for all. What stands in front of a document
  /// is the tokenizer's begin-of-text token, or, of the first, its end-of-text token, which ends each; a
  /// tokenizer may have neither. Collective. `opens`: whether this rank reads tokens of a token file.
  /// DataError: it cannot be read, has fewer than 2 tokens, or was made with another tokenizer.
  EvaluationText(const std::string& path, const Job& job, const data::Tokenizer* tokenizer,
                 transport::World& world, bool opens);

  /// Of the whole text; known on every rank.
  int64_t tokens() const { return tokens_; }
  /// Copies tokens first … first + out.size() − 1.
  void read(int64_t first, std::span<int32_t> out) const;
  /// Where documents start among them, ascending, from 0; how many.
  size_t document_starts(int64_t first, std::span<int32_t> out) const;

 private:
  void encode(const std::string& path, const data::Tokenizer& tokenizer);

  int64_t vocabulary_;
  std::unique_ptr<data::TokenFile> file_;
  std::vector<int32_t> text_;
  std::vector<int64_t> documents_;  ///< of a text: where each starts
  int64_t tokens_ = 0;
};

}  // namespace penstock
