#include "data/sampler.h"

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_error.h"
#include "data/permutation.h"
#include "data/token_writer.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using testing::HasSubstr;
using tests::message_of;
using tests::put_file;
using tests::TemporaryFolder;

TEST(Permutation, IsOneForEverySizeAndKey) {
  for (uint64_t n = 1; n <= 130; ++n) {
    for (uint64_t key = 0; key < 4; ++key) {
      const Permutation permutation(n, key);
      std::set<uint64_t> seen;
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t at = permutation(i);
        ASSERT_LT(at, n);
        seen.insert(at);
      }
      ASSERT_EQ(seen.size(), n) << "n " << n << " key " << key;
    }
  }
}

TEST(Permutation, CountsIn64Bits) {
  const uint64_t n = (uint64_t{1} << 40) + 12345;
  const Permutation permutation(n, 1);
  std::set<uint64_t> seen;
  uint64_t upper = 0;
  for (uint64_t i = n - 2000; i < n; ++i) {
    const uint64_t at = permutation(i);
    ASSERT_LT(at, n);
    seen.insert(at);
    if (at > n / 2) ++upper;
  }
  EXPECT_EQ(seen.size(), 2000u);
  EXPECT_NEAR(static_cast<double>(upper), 1000, 150);
  EXPECT_NO_THROW(Permutation(uint64_t{1} << 63, 1)(5));
  EXPECT_THROW(Permutation(0, 1), std::invalid_argument);
}

// Each value should land in each tenth of the range about equally often over keys, and neighbours should
// part.
TEST(Permutation, LooksRandom) {
  constexpr uint64_t n = 1000;
  std::vector<int> tenths(10);
  int neighbours = 0;
  for (uint64_t key = 0; key < 2000; ++key) {
    const Permutation permutation(n, key);
    ++tenths[permutation(17) / 100];
    const uint64_t a = permutation(500);
    const uint64_t b = permutation(501);
    if (a + 1 == b) ++neighbours;
  }
  for (const int count : tenths) EXPECT_NEAR(count, 200, 60);
  EXPECT_LT(neighbours, 12);  // 2 expected
}

TEST(Mixture, EveryPrefixIsExactWithinOneSample) {
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{{1},
                                                                             {0.7, 0.3},
                                                                             {1, 1, 1},
                                                                             {5, 3, 2},
                                                                             {0.9, 0.05, 0.05},
                                                                             {0.5, 0.25, 0.125, 0.125},
                                                                             {1, 2, 3, 4, 5, 6, 7},
                                                                             {0.3333, 0.6667},
                                                                             {3.14159, 2.71828, 1.41421}}) {
    const Mixture mixture(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<uint64_t> counts(weights.size());
    const uint64_t samples = 2 * mixture.period() + 17;
    for (uint64_t i = 0; i < samples; ++i) {
      const Mixture::Place place = mixture(i);
      ASSERT_LT(place.source, weights.size());
      ASSERT_EQ(place.index, counts[place.source]) << "a source's samples come in order, none is left out";
      ++counts[place.source];
      for (uint32_t f = 0; f < weights.size(); ++f) {
        const double exact =
            static_cast<double>((i + 1) * mixture.share(f)) / static_cast<double>(mixture.period());
        ASSERT_LT(std::abs(static_cast<double>(counts[f]) - exact), 1.0)
            << "source " << f << " after " << i + 1;
      }
    }
    for (uint32_t f = 0; f < weights.size(); ++f) {
      EXPECT_NEAR(static_cast<double>(mixture.share(f)) / static_cast<double>(mixture.period()),
                  weights[f] / sum, 1.0 / 65536);
    }
  }
}

// What a prefix keeps, a window anywhere keeps to within two, and within one where there are two sources:
// more is not possible for most weights of three.
TEST(Mixture, AnyWindowOfAnyWeightsIsExact) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> weights(1 + random() % 6);
    for (double& weight : weights)
      weight = static_cast<double>(1 + random() % 200) / (round % 2 == 0 ? 100.0 : 37.0);
    const Mixture mixture(weights);
    const Mixture again(weights);
    const double most = weights.size() <= 2 ? 1.0 : 2.0;
    for (int window = 0; window < 50; ++window) {
      const uint64_t first = random() % (3 * mixture.period());
      const uint64_t count = 1 + random() % 300;
      std::vector<uint64_t> taken(weights.size());
      for (uint64_t i = first; i < first + count; ++i) {
        const Mixture::Place place = mixture(i);
        ASSERT_EQ(place.source, again(i).source);
        ASSERT_EQ(place.index, again(i).index);
        ++taken[place.source];
      }
      for (uint32_t f = 0; f < weights.size(); ++f) {
        const double exact = static_cast<double>(count) * static_cast<double>(mixture.share(f)) /
                             static_cast<double>(mixture.period());
        ASSERT_LT(std::abs(static_cast<double>(taken[f]) - exact), most + 1e-9)
            << "source " << f << " of " << weights.size() << " in " << first << " to " << first + count;
      }
    }
  }
}

TEST(Mixture, DecimalWeightsAreExact) {
  const Mixture mixture({0.7, 0.25, 0.05});
  EXPECT_EQ(mixture.period(), 20u);
  EXPECT_EQ(mixture.share(0), 14u);
  EXPECT_EQ(mixture.share(2), 1u);
  EXPECT_EQ(Mixture({0.1234, 0.8766}).period(), 5000u * 2);
}

TEST(Mixture, GoesOnForEver) {
  const Mixture mixture({2, 1});
  const Mixture::Place place = mixture(3'000'000'000'000);
  EXPECT_EQ(place.index + (place.source == 0 ? 0 : 1'000'000'000'000),
            place.source == 0 ? 2'000'000'000'000 : 2'000'000'000'000);
}

TEST(Mixture, RefusesWeightsThatMeanNothing) {
  EXPECT_THROW(Mixture({}), std::invalid_argument);
  EXPECT_THROW(Mixture({1, 0}), std::invalid_argument);
  EXPECT_THROW(Mixture({1, -1}), std::invalid_argument);
  EXPECT_THROW(Mixture({1, std::nan("")}), std::invalid_argument);
  EXPECT_THROW(Mixture({1, INFINITY}), std::invalid_argument);
  EXPECT_THAT(message_of<std::invalid_argument>([] { Mixture({1, 1e-9}); }), HasSubstr("less than 1/65536"));
}

class Samples : public testing::Test {
 protected:
  // Documents of `document` tokens each: first, first + 1, …
  std::string make(const std::string& name, int32_t first, int count, int document) {
    TokenWriter writer(folder_ / name, 100000, "");
    for (int32_t i = 0; i < count; ++i) {
      const int32_t token = first + i;
      writer.add({&token, 1});
      if ((i + 1) % document == 0) writer.end_document();
    }
    writer.finish();
    return folder_ / name;
  }

  SamplerOptions options(std::vector<WeightedFile> sources, int64_t length) const {
    SamplerOptions result;
    result.sources = std::move(sources);
    result.sequence_length = length;
    result.vocabulary = 100000;
    return result;
  }

  struct Read {
    std::vector<int32_t> inputs, targets, positions, starts;
  };
  static Read read(const Sampler& sampler, uint64_t sample) {
    const auto length = static_cast<size_t>(sampler.options().sequence_length);
    Read out{std::vector<int32_t>(length), std::vector<int32_t>(length), std::vector<int32_t>(length),
             std::vector<int32_t>(length)};
    out.starts.resize(sampler.read(sample, {out.inputs, out.targets, out.positions, out.starts}));
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(Samples, InOrderWithoutShuffling) {
  SamplerOptions o = options({{make("a", 100, 14, 5), {}}}, 4);
  o.shuffle = false;
  const Sampler sampler(o);
  EXPECT_EQ(sampler.samples_per_epoch(), 3u);
  const Read first = read(sampler, 0);
  EXPECT_EQ(first.inputs, (std::vector<int32_t>{100, 101, 102, 103}));
  EXPECT_EQ(first.targets, (std::vector<int32_t>{101, 102, 103, 104}));
  EXPECT_EQ(first.positions, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(first.starts, (std::vector<int32_t>{0}));
  EXPECT_EQ(read(sampler, 1).starts, (std::vector<int32_t>{1}));
  const Read last = read(sampler, 2);
  EXPECT_EQ(last.targets, (std::vector<int32_t>{109, 110, 111, 112}));
  EXPECT_EQ(last.starts, (std::vector<int32_t>{2}));
  EXPECT_EQ(read(sampler, 3).inputs, first.inputs) << "the next epoch";
  EXPECT_EQ(sampler.place(3).epoch, 1u);
}

TEST_F(Samples, EachOnceAnEpochInAnOrderOfItsOwn) {
  const std::string a = make("a", 0, 400, 7);
  const std::string b = make("b", 1000, 203, 9);
  const Sampler sampler(options({{a, {}}, {b, {}}}, 4));
  const uint64_t n = sampler.samples_per_epoch();
  ASSERT_EQ(n, 99u + 50u);
  std::vector<std::vector<int32_t>> orders;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> firsts;
    for (uint64_t i = 0; i < n; ++i) {
      EXPECT_EQ(sampler.place(epoch * n + i).epoch, epoch);
      firsts.push_back(read(sampler, epoch * n + i).inputs[0]);
    }
    EXPECT_EQ(std::set<int32_t>(firsts.begin(), firsts.end()).size(), n);
    orders.push_back(firsts);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  SamplerOptions other = options({{a, {}}, {b, {}}}, 4);
  other.seed = 2;
  EXPECT_NE(read(Sampler(other), 0).inputs, read(sampler, 0).inputs);
  EXPECT_EQ(read(Sampler(options({{a, {}}, {b, {}}}, 4)), 77).inputs, read(sampler, 77).inputs);
}

TEST_F(Samples, WeightsGiveProportionsAndEpochsOfTheirOwn) {
  const Sampler sampler(options({{make("a", 0, 41, 7), 3.0}, {make("b", 1000, 401, 9), 1.0}}, 4));
  std::map<std::pair<uint32_t, uint64_t>, std::set<uint64_t>> seen;  // (file, epoch) → first tokens
  int from_a = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    const SamplePlace place = sampler.place(i);
    if (place.file == 0) ++from_a;
    EXPECT_TRUE(seen[std::make_pair(place.file, place.epoch)].insert(place.first_token).second);
  }
  EXPECT_EQ(from_a, 300);
  EXPECT_EQ(seen.size(), 31u);  // 30 epochs of 10 samples, one of 100
}

TEST_F(Samples, SkippedRangesAreNeverUsed) {
  SamplerOptions o = options({{make("a", 0, 401, 7), {}}}, 4);
  const Sampler all(o);
  o.skipped = SkippedSamples({{10, 20}, {3, 5}, {18, 25}, {30, 30}});
  const Sampler some(o);
  std::vector<uint64_t> used;
  for (uint64_t i = 0; i < 30; ++i) used.push_back(some.options().skipped.unskipped(i));
  std::vector<uint64_t> expected;
  for (uint64_t i = 0; expected.size() < 30; ++i) {
    if (!(i >= 3 && i < 5) && !(i >= 10 && i < 25)) expected.push_back(i);
  }
  EXPECT_EQ(used, expected);
  EXPECT_EQ(read(some, 3).inputs, read(all, 5).inputs);
  EXPECT_EQ(some.fingerprint(), all.fingerprint());
}

TEST(SkippedSamples, WhatComesBeforeStaysAndTheRestMovesUp) {
  SkippedSamples skipped;
  const SkippedSamples none;
  EXPECT_EQ(skipped.skip(8, 12), (SkippedRange{8, 12}));
  // The range begins and ends in terms of the run so far, across what is skipped already.
  SkippedSamples more = skipped;
  EXPECT_EQ(more.skip(6, 10), (SkippedRange{6, 14}));
  EXPECT_EQ(more.ranges(), (std::vector<SkippedRange>{{6, 14}}));
  EXPECT_EQ(skipped.skip(16, 20), (SkippedRange{20, 24}));
  EXPECT_EQ(skipped.ranges(), (std::vector<SkippedRange>{{8, 12}, {20, 24}}));
  // Again at the same place: the next ones.
  EXPECT_EQ(skipped.skip(16, 20), (SkippedRange{24, 28}));
  EXPECT_EQ(skipped.ranges(), (std::vector<SkippedRange>{{8, 12}, {20, 28}}));
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t expected = i < 8 ? i : (i < 16 ? i + 4 : i + 12);
    EXPECT_EQ(skipped.unskipped(i), expected);
    EXPECT_EQ(none.unskipped(i), i);
  }
}

TEST_F(Samples, TooLittleTextIsRefusedWithNumbers) {
  const std::string a = make("a", 0, 4, 7);
  EXPECT_THAT(message_of<DataError>([&] {
                Sampler sampler(options({{a, {}}}, 4));
              }),
              testing::AllOf(HasSubstr("a.bin"), HasSubstr("found 4 tokens, expected at least 5")));
  EXPECT_EQ(Sampler(options({{a, {}}}, 3)).samples_per_epoch(), 1u);
}

TEST_F(Samples, IdsOutsideTheVocabularyAreRefusedAtOnceOrWhenRead) {
  const std::string a = make("a", 0, 50, 7);
  SamplerOptions o = options({{a, {}}}, 4);
  o.vocabulary = 49;
  EXPECT_THAT(message_of<DataError>([&] { Sampler sampler(o); }), HasSubstr("token ids up to 49"));
  o.vocabulary = 50;
  o.shuffle = false;
  std::string bin = tests::get_file(a + ".bin");
  bin[4 * 6 + 1] = 0x7F;  // token 6 (int32: the vocabulary is large), behind the side-car's back
  put_file(a + ".bin", bin);
  const Sampler sampler(o);
  EXPECT_EQ(read(sampler, 0).inputs[3], 3);
  EXPECT_THAT(message_of<DataError>([&] { read(sampler, 1); }),
              testing::AllOf(HasSubstr("a.bin: byte 24"), HasSubstr("token id 32518"), HasSubstr("0 to 49")));
}

TEST_F(Samples, TheFingerprintTellsSamplesApart) {
  const std::string a = make("a", 0, 50, 7);
  const std::string b = make("b", 1, 50, 7);
  std::set<std::string> prints;
  prints.insert(Sampler(options({{a, {}}}, 4)).fingerprint());
  prints.insert(Sampler(options({{b, {}}}, 4)).fingerprint());
  prints.insert(Sampler(options({{a, {}}}, 5)).fingerprint());
  prints.insert(Sampler(options({{a, {}}, {b, {}}}, 4)).fingerprint());
  prints.insert(Sampler(options({{b, {}}, {a, {}}}, 4)).fingerprint());
  prints.insert(Sampler(options({{a, 1.0}, {b, 1.0}}, 4)).fingerprint());
  prints.insert(Sampler(options({{a, 1.0}, {b, 2.0}}, 4)).fingerprint());
  SamplerOptions o = options({{a, {}}}, 4);
  o.seed = 7;
  prints.insert(Sampler(o).fingerprint());
  o.shuffle = false;
  prints.insert(Sampler(o).fingerprint());
  EXPECT_EQ(prints.size(), 9u);
  std::filesystem::remove(side_car_path(a + ".bin"));
  EXPECT_EQ(prints.count(Sampler(options({{a, {}}}, 4)).fingerprint()), 1u) << "a side-car changes nothing";
}

TEST_F(Samples, ContradictingOptionsAreRefused) {
  const std::string a = make("a", 0, 50, 7);
  EXPECT_THROW(Sampler sampler(options({}, 4)), std::invalid_argument);
  EXPECT_THROW(Sampler sampler(options({{a, {}}}, 0)), std::invalid_argument);
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                Sampler sampler(options({{a, 1.0}, {a, {}}}, 4));
              }),
              HasSubstr("1 of 2 data sources have a weight"));
  const Sampler sampler(options({{a, {}}}, 4));
  std::vector<int32_t> small(3);
  EXPECT_THROW(sampler.read(0, {small, small, small, small}), std::logic_error);
}

}  // namespace
}  // namespace penstock::data
