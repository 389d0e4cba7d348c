#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/mixture.h"
#include "data/skipped_samples.h"
#include "data/token_file.h"

namespace penstock::data {

/// A pair of token files, and its weight in a mixture.
struct WeightedFile {
  std::string path;
  std::optional<double> weight;  ///< > 0; given for all sources or for none
};

struct SamplerOptions {
  /// Without weights the files are one pool, each sample of which comes once an epoch; with weights each file
  /// has its own epochs and the samples are dealt out by Mixture.
  std::vector<WeightedFile> sources;
  int64_t sequence_length = 0;  ///< T ≥ 1
  int64_t vocabulary = 0;       ///< ids must be below it
  uint64_t seed = 1;
  bool shuffle = true;  ///< false: in the order of the files (validation)
  SkippedSamples skipped;
};

/// Where a sample lies: it is the T + 1 tokens of `file` from `first_token` on.
struct SamplePlace {
  uint32_t file = 0;
  uint64_t first_token = 0;
  uint64_t epoch = 0;
};

/// Buffers of one sample, each of T values: inputs[t] = token t, targets[t] = token t + 1, positions[t] = t.
/// document_starts takes, ascending, the places in inputs at which a document starts (at most T).
struct SampleBuffers {
  std::span<int32_t> inputs;
  std::span<int32_t> targets;
  std::span<int32_t> positions;
  std::span<int32_t> document_starts;
};

/// A pure function from (seed, sample index, skipped ranges) to tokens: nothing is remembered between calls,
/// so a run resumes by knowing how many samples it has consumed. A file of N tokens has (N − 1) / T samples,
/// which do not overlap but for the token that is the last target of one and the first input of the next;
/// they cross document borders. Within an epoch they come without replacement, in an order keyed by (seed,
/// source, epoch). May be used by several threads at once.
class Sampler {
 public:
  /// Opens and checks the files. Throws DataError: a malformed file, fewer than T + 1 tokens, ids ≥
  /// vocabulary; std::invalid_argument: options that contradict themselves.
  explicit Sampler(SamplerOptions options);
  /// The same of files that are open: those of options.sources.
  Sampler(SamplerOptions options, std::vector<std::unique_ptr<TokenFile>> files);

  /// Samples after which every one of the pool was used once (without weights), or the sum over the files
  /// (with).
  uint64_t samples_per_epoch() const { return samples_per_epoch_; }

  /// What is skipped from now on, in place of what was. Not while another thread reads.
  void skip(SkippedSamples skipped) { options_.skipped = std::move(skipped); }

  SamplePlace place(uint64_t sample) const;

  /// Fills the buffers (each of exactly T values) and returns the number of document starts. Throws DataError
  /// with file and offset when a token is not in the vocabulary. No allocation.
  size_t read(uint64_t sample, const SampleBuffers& out) const;

  const std::vector<std::unique_ptr<TokenFile>>& files() const { return files_; }
  const SamplerOptions& options() const { return options_; }

  /// XXH3 over the files' contents (as their side-cars say) and all that decides which sample has which
  /// tokens but the skipped ranges: stored in checkpoints, equal means the same samples.
  std::string fingerprint() const;

 private:
  // Files whose samples are shuffled together.
  struct Pool {
    uint32_t first_file = 0;
    std::vector<uint64_t> ends;  // of each file's samples, added up
  };

  void build_pools();

  SamplerOptions options_;
  std::vector<std::unique_ptr<TokenFile>> files_;
  std::vector<Pool> pools_;
  std::optional<Mixture> mixture_;  // of pools, where there are weights
  uint64_t samples_per_epoch_ = 0;
};

}  // namespace penstock::data
