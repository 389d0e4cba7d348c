#include "trainer/next_token.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/math/philox.h"

namespace penstock {
namespace {

// Uniform in [0, 1), 53 bits.
double uniform(const TokenChoice& choice, uint64_t text, uint64_t position) {
  const auto words =
      math::philox({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                    static_cast<uint32_t>(text), static_cast<uint32_t>(math::RandomPurpose::sampling)},
                   {static_cast<uint32_t>(choice.seed), static_cast<uint32_t>(choice.seed >> 32)});
  const uint64_t bits = (static_cast<uint64_t>(words[0]) << 21) ^ (words[1] >> 11);
  return static_cast<double>(bits) * 0x1p-53;
}

// Written so that the compiler makes vectors of it: std::max_element asks one logit after the other.
float largest(std::span<const float> logits) {
  constexpr size_t lanes = 16;
  std::array<float, lanes> most;
  most.fill(-std::numeric_limits<float>::infinity());
  const size_t whole = logits.size() / lanes * lanes;
  for (size_t at = 0; at < whole; at += lanes) {
    for (size_t lane = 0; lane < lanes; ++lane)
      most[lane] = most[lane] < logits[at + lane] ? logits[at + lane] : most[lane];
  }
  for (size_t at = whole; at < logits.size(); ++at) most[0] = std::max(most[0], logits[at]);
  return *std::max_element(most.begin(), most.end());
}

}  // namespace

TokenSampler::TokenSampler(const TokenChoice& choice, int64_t vocabulary)
    : choice_(choice), order_(static_cast<size_t>(vocabulary)), weights_(order_.size()) {}

// The weights of places begin … end − 1; their sum.
double TokenSampler::weigh(size_t begin, size_t end) {
  double sum = 0;
  for (size_t at = begin; at < end; ++at) {
    const auto logit = static_cast<double>(logits_[static_cast<size_t>(order_[at])]);
    weights_[at] = std::exp((logit - best_) / choice_.temperature);
    sum += weights_[at];
  }
  return sum;
}

// The `count` most likely tokens first, in order.
void TokenSampler::order_first(size_t count) {
  const auto more_likely = [this](int32_t a, int32_t b) {
    const float left = logits_[static_cast<size_t>(a)];
    const float right = logits_[static_cast<size_t>(b)];
    return left > right || (left == right && a < b);
  };
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(count);
  if (end != order_.end()) std::nth_element(order_.begin(), end, order_.end(), more_likely);
  std::sort(order_.begin(), end, more_likely);
}

// Of the first `count` tokens, which are in order where that is not all of them, how many reach the mass:
// mostly a few, so that few are put in order.
size_t TokenSampler::cut_by_mass(size_t count) {
  const bool ordered = count < order_.size();
  const double wanted = choice_.top_p * weigh(0, count);
  for (size_t some = 64;; some *= 8) {
    const size_t seen = std::min(some, count);
    if (!ordered) {
      order_first(seen);
      weigh(0, seen);
    }
    double kept = 0;
    for (size_t at = 0; at < seen; ++at) {
      kept += weights_[at];
      if (kept >= wanted) return at + 1;
    }
    if (seen == count) return count;
  }
}

int32_t TokenSampler::next(std::span<const float> logits, uint64_t text, uint64_t position) {
  logits_ = logits;
  best_ = largest(logits);
  if (choice_.temperature <= 0) {
    const auto found = std::find(logits.begin(), logits.end(), best_);
    return found == logits.end() ? 0 : static_cast<int32_t>(found - logits.begin());
  }
  std::iota(order_.begin(), order_.end(), 0);
  size_t count = order_.size();
  if (choice_.top_k > 0 && static_cast<size_t>(choice_.top_k) < count) {
    count = static_cast<size_t>(choice_.top_k);
    order_first(count);
  }
  if (choice_.top_p < 1.0) count = cut_by_mass(count);
  const double target = uniform(choice_, text, position) * weigh(0, count);
  double reached = 0;
  for (size_t at = 0; at < count; ++at) {
    reached += weights_[at];
    if (target < reached) return order_[at];
  }
  return order_[count - 1];
}

}  // namespace penstock
