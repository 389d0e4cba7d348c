#pragma once

#include <cstdint>
#include <vector>

namespace penstock::data {

/// Deals sample indices to sources in given proportions, as a pure function of the index. In the first n
/// samples each source f has more than n·w_f − 1 and less than n·w_f + 1 samples, for every n; so a window
/// anywhere is exact within two, and within one where there are two sources.
///
/// The pattern repeats after `period()` samples, in which the proportions are exact; it is made once by
/// giving each source's j-th sample the window (j−1)/w … j/w and taking the earliest deadline first, which
/// meets all of them (Baruah et al., "Proportionate progress", 1996).
class Mixture {
 public:
  struct Place {
    uint32_t source;
    uint64_t index;  ///< the how-manieth sample of that source, from 0
  };

  /// Weights > 0 need not sum to 1. They are rounded to multiples of 1/period, which changes nothing for
  /// decimal fractions of up to four digits; throws std::invalid_argument for weights that are not finite and
  /// positive, or so small that a source would get nothing.
  explicit Mixture(const std::vector<double>& weights);

  uint64_t period() const { return pattern_.size(); }
  /// Samples of `source` in a period.
  uint64_t share(uint32_t source) const { return shares_[source]; }

  Place operator()(uint64_t sample) const;

 private:
  struct Entry {
    uint32_t source;
    uint32_t rank;  // among the source's samples of the period
  };
  std::vector<uint64_t> shares_;
  std::vector<Entry> pattern_;
};

}  // namespace penstock::data
