#include "data/skipped_samples.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace penstock::data {

SkippedSamples::SkippedSamples(std::vector<SkippedRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const SkippedRange& a, const SkippedRange& b) { return a.begin < b.begin; });
  for (const SkippedRange& range : ranges) {
    if (range.begin >= range.end) continue;
    if (!ranges_.empty() && range.begin <= ranges_.back().end) {
      ranges_.back().end = std::max(ranges_.back().end, range.end);
    } else {
      ranges_.push_back(range);
    }
  }
}

uint64_t SkippedSamples::unskipped(uint64_t sample) const {
  for (const SkippedRange& range : ranges_) {
    if (sample < range.begin) break;
    sample += range.end - range.begin;
  }
  return sample;
}

SkippedRange SkippedSamples::skip(uint64_t begin, uint64_t end) {
  if (begin >= end) throw std::invalid_argument("an empty range of samples cannot be skipped");
  const SkippedRange range{unskipped(begin), unskipped(end - 1) + 1};
  std::vector<SkippedRange> ranges = ranges_;
  ranges.push_back(range);
  *this = SkippedSamples(std::move(ranges));
  return range;
}

}  // namespace penstock::data
