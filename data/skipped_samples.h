#pragma once

#include <cstdint>
#include <vector>

namespace penstock::data {

/// Sample indices [begin, end).
struct SkippedRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const SkippedRange&) const = default;
};

/// The samples that are never used. With the seed it is all that decides which sample comes when: the n-th
/// sample of a run is the n-th of those that are not skipped.
class SkippedSamples {
 public:
  SkippedSamples() = default;
  /// Ranges in any order, which may overlap or be empty.
  explicit SkippedSamples(std::vector<SkippedRange> ranges);

  /// In order, apart from each other, none of them empty.
  const std::vector<SkippedRange>& ranges() const { return ranges_; }

  /// The index before skipping: the `sample`-th of those that are not skipped.
  uint64_t unskipped(uint64_t sample) const;

  /// What are samples [begin, end) of the run so far, begin < end, is skipped too. The samples before `begin`
  /// stay what they are; `begin` is now what `end` was. The range, before skipping.
  SkippedRange skip(uint64_t begin, uint64_t end);

  bool operator==(const SkippedSamples&) const = default;

 private:
  std::vector<SkippedRange> ranges_;
};

}  // namespace penstock::data
