// Comparing checkpoints: equal whatever ranks wrote them, and every kind of difference found where it is.
#include "trainer/checkpoint/checkpoint_diff.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/bfloat16.h"
#include "tests/trainer/checkpoint/small_run.h"
#include "tests/trainer/checkpoint/temporary_folder.h"

namespace penstock::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

template <class T>
Source tensor(const std::string& name, const std::vector<T>& values, DType dtype, Shape shape) {
  return whole(name, Tensor(const_cast<void*>(static_cast<const void*>(values.data())), dtype, shape));
}

class Comparing : public testing::Test {
 protected:
  /// A checkpoint of a run of its own, of these tensors by rank.
  Checkpoint saved(const std::string& run, const std::vector<std::vector<Source>>& ranks,
                   const Manifest& manifest = SmallRun(10).manifest()) const {
    const std::string checkpoints = folder_.path() + "/" + run;
    const CheckpointWriter writer(checkpoints, claim_attempt(checkpoints).attempt);
    writer.begin(manifest.step);
    std::vector<ShardEntry> entries;
    for (const std::vector<Source>& sources : ranks)
      entries.push_back(writer.write(manifest.step, static_cast<int>(entries.size()), sources));
    writer.commit(manifest, entries);
    return std::move(*latest(checkpoints, Depth::full).checkpoint);
  }

  template <class T>
  ValueDifference difference(DType dtype, const std::vector<T>& a, const std::vector<T>& b) const {
    const Shape shape{static_cast<int64_t>(a.size())};
    const Comparison found = compare(saved("left", {{tensor("t", a, dtype, shape)}}),
                                     saved("right", {{tensor("t", b, dtype, shape)}}));
    EXPECT_FALSE(found.identical());
    EXPECT_THAT(found.others, IsEmpty());
    EXPECT_THAT(found.state, IsEmpty());
    return found.values.at(0);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Comparing, SpreadOverOtherRanksIsIdentical) {
  const SmallRun run(10);
  std::vector<Source> one_rank = run.sources(0);
  one_rank.pop_back();  // half of layers.0.weight; rank 1's source knows the other half
  const std::vector<Source> second = run.sources(1);
  one_rank.insert(one_rank.end(), second.begin() + 1, second.end());
  const Source half = second.front();
  Source whole_weight = half;
  whole_weight.offset = 0;
  whole_weight.count = 42;
  whole_weight.data = run.sources(0).back().data;
  one_rank.push_back(whole_weight);
  Manifest manifest = run.manifest();
  manifest.job = "[run]\nname = \"other\"\n";
  const Comparison found =
      compare(saved("two", {run.sources(0), run.sources(1)}), saved("one", {one_rank}, manifest));
  EXPECT_TRUE(found.identical());
  EXPECT_EQ(found.tensors, 4u);
  EXPECT_EQ(found.bytes, 15u * 2 + 42 * 4 + 2 * 8 + 4);
}

TEST_F(Comparing, OtherStepsDifferInEverything) {
  const SmallRun ten(10);
  const SmallRun twenty(20);
  const Comparison found =
      compare(saved("ten", {ten.sources(0), ten.sources(1)}, ten.manifest()),
              saved("twenty", {twenty.sources(0), twenty.sources(1)}, twenty.manifest()));
  EXPECT_THAT(found.values, SizeIs(4));
  ASSERT_THAT(found.state, SizeIs(2));
  EXPECT_EQ(found.state[0].name, "step");
  EXPECT_EQ(found.state[0].a, "10");
  EXPECT_EQ(found.state[0].b, "20");
  EXPECT_EQ(found.state[1].name, "samples");
}

TEST_F(Comparing, CountsMeasuresAndPlacesDifferences) {
  std::vector<float> a(10, 2);
  std::vector<float> b = a;
  b[3] = 2.5F;
  b[7] = 1;
  const ValueDifference found = difference(DType::fp32, a, b);
  EXPECT_EQ(found.name, "t");
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.first, 3);
  EXPECT_EQ(found.absolute, 1);
  EXPECT_EQ(found.relative, 0.5);
}

TEST_F(Comparing, OneBitAtTheEndOfALongTensorIsFound) {
  // Longer than a block, and no multiple of one.
  std::vector<uint8_t> a((size_t{1} << 19) + 77, 5);
  std::vector<uint8_t> b = a;
  b.back() ^= 1;
  b[size_t{1} << 18] = 7;
  const ValueDifference found = difference(DType::u8, a, b);
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.first, int64_t{1} << 18);
  EXPECT_EQ(found.absolute, 2);
}

TEST_F(Comparing, EveryTypeIsMeasuredInItsValues) {
  const std::vector<bfloat16> narrow{bfloat16(1), bfloat16(-3)};
  const std::vector<bfloat16> narrow_b{bfloat16(1), bfloat16(-2)};
  EXPECT_EQ(difference(DType::bf16, narrow, narrow_b).absolute, 1);
  EXPECT_EQ(difference(DType::fp64, std::vector<double>{1e300}, std::vector<double>{-1e300}).relative, 2);
  EXPECT_EQ(difference(DType::i32, std::vector<int32_t>{-4}, std::vector<int32_t>{4}).absolute, 8);
  EXPECT_EQ(difference(DType::i64, std::vector<int64_t>{int64_t{1} << 40}, std::vector<int64_t>{0}).relative,
            1);
  // fp16: 1.5 and 1; 65504, the largest; the smallest of all, 2^-24, and its negative; infinity.
  using Half = std::vector<uint16_t>;
  EXPECT_EQ(difference(DType::fp16, Half{0x3e00}, Half{0x3c00}).absolute, 0.5);
  EXPECT_EQ(difference(DType::fp16, Half{0x7bff}, Half{0}).absolute, 65504);
  EXPECT_EQ(difference(DType::fp16, Half{0x0001}, Half{0x8001}).absolute, std::ldexp(1.0, -23));
  EXPECT_TRUE(std::isinf(difference(DType::fp16, Half{0x7c00}, Half{0}).absolute));
}

TEST_F(Comparing, BitsCountNotValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float other_nan = std::bit_cast<float>(std::bit_cast<uint32_t>(nan) | 1);
  const ValueDifference zeros =
      difference(DType::fp32, std::vector<float>{0.0F, nan}, std::vector<float>{-0.0F, nan});
  EXPECT_EQ(zeros.differing, 1);
  EXPECT_EQ(zeros.first, 0);
  EXPECT_EQ(zeros.absolute, 0);
  EXPECT_EQ(zeros.relative, 0);
  const ValueDifference nans =
      difference(DType::fp32, std::vector<float>{1, nan}, std::vector<float>{1, other_nan});
  EXPECT_EQ(nans.first, 1);
  EXPECT_TRUE(std::isinf(nans.absolute));
  EXPECT_TRUE(std::isinf(nans.relative));
}

TEST_F(Comparing, OtherShapesTypesNamesAndState) {
  const std::vector<float> values(6, 1);
  const std::vector<double> wide(6, 1);
  Manifest changed = SmallRun(10).manifest();
  changed.state["loss_scale"] = 32768;
  changed.state.erase("spikes");
  const Comparison found = compare(
      saved("a", {{tensor("both", values, DType::fp32, {6}), tensor("gone", values, DType::fp32, {6}),
                   tensor("shape", values, DType::fp32, {2, 3}), tensor("type", values, DType::fp32, {6})}}),
      saved("b",
            {{tensor("both", values, DType::fp32, {6}), tensor("new", values, DType::fp32, {6}),
              tensor("shape", values, DType::fp32, {3, 2}), tensor("type", wide, DType::fp64, {6})}},
            changed));
  const auto words = [](const std::vector<OtherDifference>& all) {
    std::vector<std::string> lines;
    for (const OtherDifference& one : all) lines.push_back(one.name + ": " + one.a + " | " + one.b);
    return lines;
  };
  EXPECT_EQ(found.tensors, 1u);
  EXPECT_THAT(found.values, IsEmpty());
  EXPECT_THAT(words(found.others),
              ElementsAre("gone: fp32 (6) | missing", "new: missing | fp32 (6)",
                          "shape: fp32 (2, 3) | fp32 (3, 2)", "type: fp32 (6) | fp64 (6)"));
  EXPECT_THAT(words(found.state),
              ElementsAre("state.loss_scale: 65536.5 | 32768",
                          R"(state.spikes: {"count":18446744073709551615,"mean":0.1} | missing)"));
}

// Two equal runs may have been arranged otherwise at another time: that is said, and is no difference.
TEST_F(Comparing, HowRunsAreArrangedIsNoDifference) {
  const std::vector<float> values(6, 1);
  Manifest arranged = SmallRun(10).manifest();
  arranged.state["budget"] = {{"left", 3}};
  const std::vector<std::vector<Source>> ranks{{tensor("both", values, DType::fp32, {6})}};
  const Comparison found = compare(saved("a", ranks), saved("b", ranks, arranged));
  EXPECT_TRUE(found.identical());
  ASSERT_EQ(found.arrangement.size(), 1u);
  EXPECT_EQ(found.arrangement[0].name, "state.budget");
  EXPECT_EQ(found.arrangement[0].a, "missing");
  EXPECT_EQ(found.arrangement[0].b, R"({"left":3})");
}

TEST(IndexText, CountsFromTheInnermostAxis) {
  EXPECT_EQ(index_text({2, 3, 4}, 23), "(1, 2, 3)");
  EXPECT_EQ(index_text({2, 3, 4}, 4), "(0, 1, 0)");
  EXPECT_EQ(index_text({7}, 6), "(6)");
  EXPECT_EQ(index_text({}, 0), "()");
}

}  // namespace
}  // namespace penstock::checkpoint
