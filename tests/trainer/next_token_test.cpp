#include "trainer/next_token.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

int32_t next_token(std::span<const float> logits, const TokenChoice& choice, uint64_t text,
                   uint64_t position) {
  return TokenSampler(choice, static_cast<int64_t>(logits.size())).next(logits, text, position);
}

constexpr std::array<float, 5> kLogits{1.0F, 3.0F, 2.0F, -1.0F, 3.0F};

TEST(NextToken, TemperatureZeroTakesTheFirstOfTheMostLikely) {
  TokenChoice choice;
  choice.temperature = 0;
  EXPECT_EQ(next_token(kLogits, choice, 0, 0), 1);
}

TEST(NextToken, TemperatureZeroFindsTheLargestAtEveryPlace) {
  TokenChoice choice;
  choice.temperature = 0;
  for (size_t size = 1; size <= 70; ++size) {
    std::vector<float> logits(size, -std::numeric_limits<float>::infinity());
    for (size_t place = size; place-- > 0;) {
      logits[place] = -5.0F;  // as large as those behind it: the first counts
      EXPECT_EQ(next_token(logits, choice, 0, 0), static_cast<int32_t>(place)) << size;
    }
  }
  const std::vector<float> broken(33, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(next_token(broken, choice, 0, 0), 0);
}

TEST(NextToken, FrequenciesFollowTheSoftmax) {
  TokenChoice choice;
  choice.temperature = 2.0;
  constexpr int draws = 40000;
  std::vector<double> counts(kLogits.size());
  for (uint64_t at = 0; at < draws; ++at)
    counts[static_cast<size_t>(next_token(kLogits, choice, 7, at))] += 1;
  double total = 0;
  for (const float logit : kLogits) total += std::exp(logit / 2.0);
  for (size_t token = 0; token < kLogits.size(); ++token) {
    const double expected = std::exp(kLogits[token] / 2.0) / total;
    EXPECT_NEAR(counts[token] / draws, expected, 4 * std::sqrt(expected / draws)) << token;
  }
}

TEST(NextToken, CutsKeepOnlyTheLikely) {
  std::set<int32_t> seen;
  TokenChoice top_k;
  top_k.top_k = 2;
  for (uint64_t at = 0; at < 500; ++at) seen.insert(next_token(kLogits, top_k, 0, at));
  EXPECT_EQ(seen, (std::set<int32_t>{1, 4}));
  seen.clear();
  TokenChoice top_p;
  top_p.top_p = 0.85;  // 1 and 4 hold 0.79 together, 2 comes next
  for (uint64_t at = 0; at < 500; ++at) seen.insert(next_token(kLogits, top_p, 0, at));
  EXPECT_EQ(seen, (std::set<int32_t>{1, 2, 4}));
  top_p.top_p = 1e-9;
  EXPECT_EQ(next_token(kLogits, top_p, 0, 3), 1) << "at least one token is kept";
}

// Where thousands of tokens make the mass, they are put in order in several goes; one sampler does for many.
TEST(NextToken, CutsOfLargeVocabulariesTakeTheLikeliest) {
  std::vector<float> logits(5000);
  for (size_t token = 0; token < logits.size(); ++token)
    logits[token] = static_cast<float>((token * 2654435761U) % 5000) / 5000.0F;
  TokenChoice choice;
  choice.top_p = 0.5;
  std::vector<float> sorted = logits;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double total = 0;
  for (const float logit : sorted) total += std::exp(logit);
  double kept = 0;
  size_t count = 0;
  while (kept < 0.5 * total) kept += std::exp(sorted[count++]);
  TokenSampler sampler(choice, 5000);
  for (uint64_t at = 0; at < 300; ++at)
    EXPECT_GE(logits[static_cast<size_t>(sampler.next(logits, 0, at))], sorted[count - 1]);
  choice.top_k = 700;
  TokenSampler both(choice, 5000);
  EXPECT_GE(logits[static_cast<size_t>(both.next(logits, 0, 1))], sorted[699]);
  EXPECT_EQ(both.next(logits, 0, 2), next_token(logits, choice, 0, 2));
}

TEST(NextToken, IsAFunctionOfSeedTextAndPosition) {
  const std::vector<float> flat(1000, 0.0F);
  TokenChoice choice;
  TokenChoice other = choice;
  other.seed = 2;
  EXPECT_EQ(next_token(flat, choice, 1, 2), next_token(flat, choice, 1, 2));
  int equal = 0;
  for (uint64_t at = 0; at < 100; ++at) {
    equal += next_token(flat, choice, 1, at) == next_token(flat, other, 1, at);
    equal += next_token(flat, choice, 1, at) == next_token(flat, choice, 2, at);
  }
  EXPECT_LT(equal, 5);
}

}  // namespace
}  // namespace penstock
