#include "trainer/corpus.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/tokenizer_json.h"

namespace penstock {
namespace {

data::SamplerOptions options_of(const Job& job) {
  data::SamplerOptions options;
  options.sequence_length = job.model.sequence_length;
  options.vocabulary = job.model.vocab_size;
  options.seed = job.run.seed;
  return options;
}

// Ids mean what the tokenizer that made them says: with another one of no smaller vocabulary a run would
// train without complaint, and write nonsense.
void check_tokenizer(const Job& job, const data::TokenFile& file, const data::Tokenizer* tokenizer) {
  const std::string& made_with = file.facts().tokenizer;
  // Empty: nobody knows.
  if (tokenizer == nullptr || made_with.empty() || made_with == tokenizer->fingerprint()) return;
  throw data::DataError(
      fmt::format("{}: found token ids of the tokenizer with fingerprint {}, expected {}, that of {} "
                  "(data.tokenizer); name the tokenizer that made the file, or prepare the data again",
                  file.bin_path(), made_with, tokenizer->fingerprint(), job.data.tokenizer));
}

// A mask that finds no borders would be none, in silence.
void check_documents(const Job& job, const data::TokenFile& file) {
  if (!job.data.document_mask || file.knows_documents()) return;
  throw data::DataError(data::Fault{
      data::side_car_path(file.bin_path()),
      {},
      "nothing that says where documents begin",
      "document_token, as data.document_mask = true needs it",
      fmt::format(
          "delete it and write it again: penstock data inspect {} --headerless {} --document-token ID "
          "--write-side-car, or leave data.document_mask out",
          file.bin_path(), data::token_type_name(file.type()))});
}

void check_files(const Job& job, const data::Sampler& sampler, const data::Tokenizer* tokenizer) {
  for (const auto& file : sampler.files()) check_token_file(job, *file, tokenizer);
}

}  // namespace

void check_token_file(const Job& job, const data::TokenFile& file, const data::Tokenizer* tokenizer) {
  check_tokenizer(job, file, tokenizer);
  check_documents(job, file);
}

std::shared_ptr<const data::Tokenizer> Corpus::open_tokenizer(Job& job) {
  if (job.data.tokenizer.empty()) return nullptr;
  auto tokenizer = std::make_shared<const data::Tokenizer>(data::load_tokenizer(job.data.tokenizer));
  if (job.model.vocab_size == 0) job.model.vocab_size = tokenizer->size();
  if (job.model.vocab_size < tokenizer->size()) {
    throw data::DataError(
        fmt::format("{}: the tokenizer has {} tokens, but model.vocab_size is {}; leave model.vocab_size "
                    "out to take the tokenizer's",
                    job.data.tokenizer, tokenizer->size(), job.model.vocab_size));
  }
  return tokenizer;
}

Corpus::Corpus(const Job& job, const data::Tokenizer* tokenizer, bool opens_files)
    : document_mask_(job.data.document_mask) {
  if (!opens_files) return;
  data::SamplerOptions train = options_of(job);
  const bool weighted = std::any_of(job.data.train.begin(), job.data.train.end(),
                                    [](const DataSource& source) { return source.weight != 1.0; });
  for (const DataSource& source : job.data.train) {
    train.sources.push_back({source.path, weighted ? std::optional<double>(source.weight) : std::nullopt});
  }
  train_ = std::make_unique<data::Sampler>(std::move(train));
  check_files(job, *train_, tokenizer);
  warn_of(*train_);
  if (!job.data.validation.empty()) {
    data::SamplerOptions validation = options_of(job);
    validation.sources.push_back({job.data.validation, std::nullopt});
    validation.shuffle = false;
    validation_ = std::make_unique<data::Sampler>(std::move(validation));
    check_files(job, *validation_, tokenizer);
    warn_of(*validation_);
  }
}

void Corpus::warn_of(const data::Sampler& sampler) {
  if (!document_mask_) return;
  for (const auto& file : sampler.files()) {
    if (!file->lacks_marks()) continue;
    warnings_.push_back(fmt::format(
        "{}: token {}, which separates documents, does not occur: data.document_mask takes the file as one "
        "document. If another token does, write a side-car with its document_token",
        file->bin_path(), file->facts().mark->token));
  }
}

void Corpus::skip(data::SkippedSamples skipped) {
  skipped_ = std::move(skipped);
  if (train_) train_->skip(skipped_);
}

void Corpus::read(const data::Sampler* sampler, uint64_t first, HostMicroBatch& batch) {
  const size_t length = batch.tokens.size() / batch.samples.size();
  for (size_t row = 0; row < batch.samples.size(); ++row) {
    const auto part = [&](std::span<int32_t> values) { return values.subspan(row * length, length); };
    const data::SampleBuffers buffers{part(batch.tokens), part(batch.targets), part(batch.positions),
                                      part(batch.starts)};
    batch.samples[row] = static_cast<int64_t>(first + row);
    if (sampler == nullptr) {
      std::iota(buffers.positions.begin(), buffers.positions.end(), 0);
      continue;
    }
    const size_t documents = sampler->read(first + row, buffers);
    if (document_mask_) {
      // The list is a prefix of the very buffer that takes the answer, so it is set aside first.
      document_starts_.assign(buffers.document_starts.begin(),
                              buffers.document_starts.begin() + static_cast<std::ptrdiff_t>(documents));
      mask_documents(document_starts_, buffers.positions, buffers.document_starts, buffers.targets);
    }
  }
}

void mask_documents(std::span<const int32_t> document_starts, std::span<int32_t> positions,
                    std::span<int32_t> starts, std::span<int32_t> targets) {
  size_t next = 0;
  int32_t start = 0;
  for (size_t token = 0; token < positions.size(); ++token) {
    const auto place = static_cast<int32_t>(token);
    if (next < document_starts.size() && document_starts[next] == place) {
      start = place;
      ++next;
      if (token > 0) targets[token - 1] = -1;
    }
    starts[token] = start;
    positions[token] = place - start;
  }
}

}  // namespace penstock
