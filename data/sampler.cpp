#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "data/content_hash.h"
#include "data/data_error.h"
#include "data/permutation.h"

namespace penstock::data {

namespace {

std::vector<std::unique_ptr<TokenFile>> opened(const SamplerOptions& options) {
  std::vector<std::unique_ptr<TokenFile>> files;
  for (const WeightedFile& source : options.sources)
    files.push_back(std::make_unique<TokenFile>(source.path));
  return files;
}

}  // namespace

Sampler::Sampler(SamplerOptions options) : Sampler(options, opened(options)) {}

Sampler::Sampler(SamplerOptions options, std::vector<std::unique_ptr<TokenFile>> files)
    : options_(std::move(options)), files_(std::move(files)) {
  if (options_.sequence_length < 1 || options_.vocabulary < 1 || files_.empty() ||
      files_.size() != options_.sources.size()) {
    throw std::invalid_argument("a sampler needs a source, a sequence length and a vocabulary of at least 1");
  }
  const auto length = static_cast<uint64_t>(options_.sequence_length);
  for (const auto& opened_file : files_) {
    const TokenFile& file = *opened_file;
    if (file.tokens() < length + 1) {
      throw DataError(Fault{file.bin_path(),
                            {},
                            fmt::format("{} tokens", file.tokens()),
                            fmt::format("at least {} (sequence_length {} + 1)", length + 1, length),
                            "prepare more text or shorten model.sequence_length"});
    }
    file.require_vocabulary(options_.vocabulary);
  }
  build_pools();
}

void Sampler::build_pools() {
  const auto weighted = std::count_if(options_.sources.begin(), options_.sources.end(),
                                      [](const WeightedFile& source) { return source.weight.has_value(); });
  if (weighted != 0 && static_cast<size_t>(weighted) != files_.size()) {
    throw std::invalid_argument(fmt::format(
        "{} of {} data sources have a weight: give one to all of them or to none", weighted, files_.size()));
  }
  for (uint32_t f = 0; f < files_.size(); ++f) {
    const uint64_t samples = (files_[f]->tokens() - 1) / static_cast<uint64_t>(options_.sequence_length);
    samples_per_epoch_ += samples;
    if (weighted != 0 || pools_.empty()) pools_.push_back({f, {}});
    std::vector<uint64_t>& ends = pools_.back().ends;
    ends.push_back((ends.empty() ? 0 : ends.back()) + samples);
  }
  if (weighted == 0) return;
  std::vector<double> weights;
  for (const WeightedFile& source : options_.sources) weights.push_back(*source.weight);
  mixture_.emplace(weights);
}

SamplePlace Sampler::place(uint64_t sample) const {
  const uint64_t index = options_.skipped.unskipped(sample);
  const Mixture::Place dealt = mixture_ ? (*mixture_)(index) : Mixture::Place{0, index};
  const Pool& pool = pools_[dealt.source];
  const uint64_t count = pool.ends.back();
  SamplePlace place;
  place.epoch = dealt.index / count;
  uint64_t at = dealt.index % count;
  if (options_.shuffle) {
    const uint64_t key = mix_bits(mix_bits(options_.seed, dealt.source), place.epoch);
    at = Permutation(count, key)(at);
  }
  const auto end = std::upper_bound(pool.ends.begin(), pool.ends.end(), at);
  const auto nth = static_cast<uint32_t>(end - pool.ends.begin());
  place.file = pool.first_file + nth;
  place.first_token =
      (at - (nth == 0 ? 0 : pool.ends[nth - 1])) * static_cast<uint64_t>(options_.sequence_length);
  return place;
}

size_t Sampler::read(uint64_t sample, const SampleBuffers& out) const {
  const auto length = static_cast<size_t>(options_.sequence_length);
  if (out.inputs.size() != length || out.targets.size() != length || out.positions.size() != length ||
      out.document_starts.size() != length) {
    throw std::logic_error(fmt::format("sample buffers must hold sequence_length = {} values each", length));
  }
  const SamplePlace at = place(sample);
  const TokenFile& file = *files_[at.file];
  file.read(at.first_token, out.inputs, options_.vocabulary);
  std::copy(out.inputs.begin() + 1, out.inputs.end(), out.targets.begin());
  file.read(at.first_token + length, out.targets.last(1), options_.vocabulary);
  std::iota(out.positions.begin(), out.positions.end(), 0);
  return file.document_starts(at.first_token, out.document_starts);
}

std::string Sampler::fingerprint() const {
  ContentHash hash;
  hash.text("penstock sampler 1");
  hash.number(static_cast<uint64_t>(options_.sequence_length));
  hash.number(options_.seed);
  hash.number(options_.shuffle ? 1 : 0);
  hash.number(files_.size());
  for (uint32_t f = 0; f < files_.size(); ++f) {
    hash.text(content_fingerprint(files_[f]->facts()));
    hash.number(mixture_ ? mixture_->share(f) : 0);
  }
  return hash.hex();
}

}  // namespace penstock::data
