#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "data/tokenizer.h"
#include "trainer/job/job.h"

namespace penstock {

/// A micro-batch in host memory that somebody else holds: B sequences of T tokens, N = B·T, flattened.
struct HostMicroBatch {
  std::span<int32_t> tokens;  ///< (N)
  std::span<int32_t>
      targets;  ///< (N), −1 where the next token belongs to another document and that is masked
  std::span<int32_t> positions;  ///< (N)
  std::span<int32_t>
      starts;  ///< (N) first visible token of the sequence; only filled with data.document_mask
  std::span<int64_t> samples;  ///< (B) global sample ids
};

/// The text side of a job: its tokenizer and its token files.
class Corpus {
 public:
  /// Opens the tokenizer where the job names one, fills model.vocab_size from it where the job does not say,
  /// and throws data::DataError for a vocabulary smaller than the tokenizer's. Null where the job names none.
  static std::shared_ptr<const data::Tokenizer> open_tokenizer(Job& job);

  /// Opens the token files. `job` is resolved: its vocab_size is known. Throws data::DataError.
  /// `opens_files` is false on ranks that need neither tokens nor targets: they fill in positions and sample
  /// ids, which follow from the sample's number.
  /// DataError too where a file says that it was made with another tokenizer than `tokenizer` (null: not
  /// compared).
  Corpus(const Job& job, const data::Tokenizer* tokenizer, bool opens_files);

  /// Whether token files are open here.
  bool opened() const { return train_ != nullptr; }
  /// What is no error but hardly meant: documents that nothing tells apart although they are to be masked.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// XXH3 over what decides the samples; empty without files.
  std::string fingerprint() const { return train_ ? train_->fingerprint() : std::string(); }
  /// Null where the job has no validation file.
  const data::Sampler* validation() const { return validation_.get(); }

  /// Training samples that are not used, on ranks without files too. Validation has none.
  const data::SkippedSamples& skipped() const { return skipped_; }
  void skip(data::SkippedSamples skipped);

  /// Fills `batch` with training samples first … first + B − 1.
  void read_train(uint64_t first, HostMicroBatch& batch) { read(train_.get(), first, batch); }
  void read_validation(uint64_t first, HostMicroBatch& batch) { read(validation_.get(), first, batch); }

 private:
  void warn_of(const data::Sampler& sampler);
  void read(const data::Sampler* sampler, uint64_t first, HostMicroBatch& batch);

  bool document_mask_;
  std::vector<int32_t> document_starts_;  // of one sequence
  std::vector<std::string> warnings_;
  data::SkippedSamples skipped_;
  std::unique_ptr<data::Sampler> train_;
  std::unique_ptr<data::Sampler> validation_;
};

/// DataError where the file says that it was made with another tokenizer (null: not compared), or documents
/// are to be masked and nobody knows where they begin.
void check_token_file(const Job& job, const data::TokenFile& file, const data::Tokenizer* tokenizer);

/// Restarts positions and hides what lies before it at each document start (places ascending, within one
/// sequence of positions.size() tokens). starts[t] = first token of t's document. The target of a document's
/// last token, which belongs to the next document, becomes −1.
void mask_documents(std::span<const int32_t> document_starts, std::span<int32_t> positions,
                    std::span<int32_t> starts, std::span<int32_t> targets);

}  // namespace penstock
