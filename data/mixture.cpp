#include "data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

namespace penstock::data {
namespace {

constexpr uint64_t longest_period = 65536;

// Whole shares of a period: the shortest period (first all up to 1000, then 10000) in which the weights are
// whole numbers, else the longest one by largest remainders.
std::vector<uint64_t> shares_of(const std::vector<double>& weights) {
  double sum = 0;
  for (size_t f = 0; f < weights.size(); ++f) {
    if (!std::isfinite(weights[f]) || weights[f] <= 0) {
      throw std::invalid_argument(
          fmt::format("weight {} of source {}: expected a number above 0", weights[f], f));
    }
    sum += weights[f];
  }
  const auto exact_in = [&](uint64_t period) {
    return std::all_of(weights.begin(), weights.end(), [&](double weight) {
      const double share = weight / sum * static_cast<double>(period);
      return std::round(share) >= 1 &&
             std::abs(share - std::round(share)) < 1e-9 * static_cast<double>(period);
    });
  };
  std::vector<uint64_t> shares(weights.size());
  for (uint64_t period = weights.size(); period <= 10000; period = period < 1000 ? period + 1 : 10 * period) {
    if (!exact_in(period)) continue;
    for (size_t f = 0; f < weights.size(); ++f) {
      shares[f] = static_cast<uint64_t>(std::llround(weights[f] / sum * static_cast<double>(period)));
    }
    if (std::accumulate(shares.begin(), shares.end(), uint64_t{0}) == period) return shares;
  }
  std::vector<size_t> by_remainder(weights.size());
  std::vector<double> remainders(weights.size());
  uint64_t dealt = 0;
  for (size_t f = 0; f < weights.size(); ++f) {
    const double share = weights[f] / sum * static_cast<double>(longest_period);
    shares[f] = static_cast<uint64_t>(share);
    remainders[f] = share - std::floor(share);
    by_remainder[f] = f;
    dealt += shares[f];
  }
  std::stable_sort(by_remainder.begin(), by_remainder.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (size_t i = 0; dealt < longest_period; ++i, ++dealt) ++shares[by_remainder[i % by_remainder.size()]];
  for (size_t f = 0; f < weights.size(); ++f) {
    if (shares[f] > 0) continue;
    throw std::invalid_argument(
        fmt::format("weight {} of source {} is less than 1/{} of all weights: raise it or leave "
                    "the source out",
                    weights[f], f, longest_period));
  }
  return shares;
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) {
  if (weights.empty()) throw std::invalid_argument("a mixture of no sources");
  shares_ = shares_of(weights);
  const uint64_t period = std::accumulate(shares_.begin(), shares_.end(), uint64_t{0});
  std::vector<uint32_t> taken(shares_.size(), 0);
  pattern_.reserve(period);
  for (uint64_t slot = 0; slot < period; ++slot) {
    // Sample j (from 0) of a source with share q may lie in slots floor(j·P/q) … ceil((j+1)·P/q) − 1.
    size_t best = shares_.size();
    uint64_t best_deadline = 0;
    for (size_t f = 0; f < shares_.size(); ++f) {
      const uint64_t j = taken[f];
      if (j == shares_[f] || j * period / shares_[f] > slot) continue;
      const uint64_t deadline = ((j + 1) * period + shares_[f] - 1) / shares_[f];
      if (best == shares_.size() || deadline < best_deadline) {
        best = f;
        best_deadline = deadline;
      }
    }
    pattern_.push_back({static_cast<uint32_t>(best), taken[best]++});
  }
}

Mixture::Place Mixture::operator()(uint64_t sample) const {
  const Entry& entry = pattern_[sample % pattern_.size()];
  return {entry.source, sample / pattern_.size() * shares_[entry.source] + entry.rank};
}

}  // namespace penstock::data
