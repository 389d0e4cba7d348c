#include "trainer/next_token.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

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

}  // namespace

int32_t next_token(std::span<const float> logits, const TokenChoice& choice, uint64_t text,
                   uint64_t position) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (choice.temperature <= 0) return static_cast<int32_t>(best - logits.begin());

  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (choice.top_k > 0 && static_cast<size_t>(choice.top_k) < order.size()) {
    order.resize(static_cast<size_t>(choice.top_k));
  }
  std::vector<double> weights;
  weights.reserve(order.size());
  for (const int32_t token : order) {
    weights.push_back(
        std::exp((static_cast<double>(logits[static_cast<size_t>(token)]) - *best) / choice.temperature));
  }
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (choice.top_p < 1.0) {
    double kept = 0;
    size_t count = 0;
    while (count < weights.size() && (count == 0 || kept < choice.top_p * total)) kept += weights[count++];
    weights.resize(count);
    total = kept;
  }
  const double target = uniform(choice, text, position) * total;
  double reached = 0;
  for (size_t at = 0; at < weights.size(); ++at) {
    reached += weights[at];
    if (target < reached) return order[at];
  }
  return order[weights.size() - 1];
}

}  // namespace penstock
