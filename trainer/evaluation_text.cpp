#include "trainer/evaluation_text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/document_reader.h"
#include "data/encoder.h"
#include "trainer/corpus.h"

namespace penstock {
namespace {

bool is_token_file(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  return ending == ".bin" || ending == ".idx" || std::filesystem::exists(path + ".bin");
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

EvaluationText::EvaluationText(const std::string& path, const Job& job, const data::Tokenizer* tokenizer,
                               transport::World& world, bool opens)
    : vocabulary_(job.model.vocab_size) {
  if (is_token_file(path)) {
    if (opens || world.rank() == 0) {
      file_ = std::make_unique<data::TokenFile>(path);
      file_->require_vocabulary(vocabulary_);
      check_token_file(job, *file_, tokenizer);
      tokens_ = static_cast<int64_t>(file_->tokens());
    }
    std::array<int64_t, 1> tokens{tokens_};
    world.all_reduce(tokens, transport::Reduction::maximum);
    tokens_ = tokens[0];
  } else {
    if (tokenizer == nullptr) {
      throw data::DataError(data::Fault{path, std::nullopt, "a text",
                                        "token ids, or data.tokenizer in the job",
                                        "name the tokenizer: --set data.tokenizer=FILE"});
    }
    if (world.rank() == 0) encode(path, *tokenizer);
    if (world.size() > 1) {
      text_ = values_of<int32_t>(world.broadcast(bytes_of(text_), 0));
      documents_ = values_of<int64_t>(world.broadcast(bytes_of(documents_), 0));
    }
    tokens_ = static_cast<int64_t>(text_.size());
  }
  if (tokens_ < 2) {
    throw data::DataError(data::Fault{path, std::nullopt, fmt::format("{} tokens", tokens_), "2 or more",
                                      "a loss is that of a token behind another"});
  }
}

void EvaluationText::encode(const std::string& path, const data::Tokenizer& tokenizer) {
  data::DocumentReader reader(path, data::DocumentSeparator::file);
  data::Encoder encoder(tokenizer);
  const std::optional<int32_t> end = tokenizer.end_of_text();
  const std::optional<int32_t> begin = tokenizer.begin_of_text();
  bool inside = false;
  if (!begin && end) text_.push_back(*end);
  while (const std::optional<data::DocumentPiece> piece = reader.next()) {
    if (!inside) {
      documents_.push_back(static_cast<int64_t>(text_.size()));
      if (begin) text_.push_back(*begin);
    }
    encoder.encode(piece->text, text_);
    inside = !piece->ends_document;
    if (!inside && end) text_.push_back(*end);
  }
}

void EvaluationText::read(int64_t first, std::span<int32_t> out) const {
  if (file_) {
    file_->read(static_cast<uint64_t>(first), out, vocabulary_);
    return;
  }
  std::copy_n(text_.begin() + first, out.size(), out.begin());
}

size_t EvaluationText::document_starts(int64_t first, std::span<int32_t> out) const {
  if (file_) return file_->document_starts(static_cast<uint64_t>(first), out);
  size_t count = 0;
  const auto end = first + static_cast<int64_t>(out.size());
  for (auto at = std::lower_bound(documents_.begin(), documents_.end(), first);
       at != documents_.end() && *at < end; ++at) {
    const auto place = static_cast<int32_t>(*at - first);
    if (count == 0 || out[count - 1] != place) out[count++] = place;  // else an empty document is before it
  }
  return count;
}

}  // namespace penstock
