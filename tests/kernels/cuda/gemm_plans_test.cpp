#include "kernels/cuda/gemm_plans.h"

#include <gmock/gmock.h>

#include "kernels/device/error.h"
#include "tests/kernels/cuda/gemm_fixture.h"

namespace penstock::testing {
namespace {

using cuda::GemmPlans;
using cuda::GemmShape;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr GemmShape forward{.rows = 24,
                            .columns = 32,
                            .depth = 640,
                            .in = DType::bf16,
                            .out = DType::bf16,
                            .b_transposed = true,
                            .bias = true};
constexpr GemmShape odd{.rows = 7, .columns = 5, .depth = 3, .a_transposed = true, .accumulate = true};
constexpr GemmShape logits{.rows = 8, .columns = 16, .depth = 640, .in = DType::bf16, .b_transposed = true};

class GemmPlansTest : public GemmTest {
 protected:
  /// A library whose first choice is another one than usual.
  std::shared_ptr<cuda::GemmLibrary> with_first_proposal(int proposal) {
    faults().first_proposal = proposal;
    return create();
  }
};

TEST_F(GemmPlansTest, AreTheSameAfterWritingAndReading) {
  const auto library = create();
  for (const GemmShape& shape : {forward, odd, logits}) library->plan(shape);
  ASSERT_EQ(library->plans().table().size(), 3U);
  const std::string text = library->plans().to_json();
  const GemmPlans read = GemmPlans::from_json(text);
  EXPECT_EQ(read.origin(), library->plans().origin());
  EXPECT_EQ(read.table(), library->plans().table());
  EXPECT_EQ(read.to_json(), text);
  EXPECT_EQ(read.origin().library_version, static_cast<uint64_t>(CUBLAS_VERSION));
  EXPECT_EQ(read.origin().device, device_->description());
}

TEST_F(GemmPlansTest, DamagedTextIsRefusedWithItsPlace) {
  const auto library = create();
  library->plan(odd);
  library->plan(forward);
  const std::string text = library->plans().to_json();
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string damaged = text;
    damaged.replace(damaged.rfind(from), from.size(), to);
    return message_of<DeviceError>([&] { GemmPlans::from_json(damaged); });
  };
  EXPECT_THAT(error("\"algorithm\":\"6", "\"algorithm\":\"x"),
              StartsWith("plans of matrix products: product 1: algorithm \"x"));
  EXPECT_THAT(error("\"algorithm\":\"66", "\"algorithm\":\""), HasSubstr("expected 128 hexadecimal digits"));
  EXPECT_EQ(error("\"in\":\"bf16\"", "\"in\":\"fp64\""),
            "plans of matrix products: product 1: type \"fp64\"; expected fp32, bf16 or fp16");
  EXPECT_THAT(error("\"depth\"", "\"deep\""), HasSubstr("product 1: "));
  EXPECT_THAT(error("\"device\"", "\"gadget\""), HasSubstr("their head: "));
}

TEST_F(GemmPlansTest, GiveTheSameBitsWhereverTheyAreUsed) {
  const auto first = with_first_proposal(1);
  const std::vector<double> expected = run(*first->plan(logits), logits);
  EXPECT_EQ(counts().last_algorithm, 1);

  const auto other = with_first_proposal(0);
  EXPECT_NE(run(*other->plan(logits), logits), expected) << "algorithms add in different orders";
  EXPECT_EQ(counts().last_algorithm, 0);

  const auto resumed = create();
  EXPECT_EQ(resumed->plans().adopt(GemmPlans::from_json(first->plans().to_json())), "");
  EXPECT_EQ(run(*resumed->plan(logits), logits), expected);
  EXPECT_EQ(counts().last_algorithm, 1);
}

TEST_F(GemmPlansTest, OfAnotherLibraryOrDeviceAreNotAdopted) {
  const auto library = create();
  library->plan(odd);
  const GemmPlans stored = library->plans();
  faults().version = 120900;
  const auto newer = create();
  EXPECT_EQ(newer->plans().adopt(stored),
            "the stored plans of matrix products are of cuBLASLt " + std::to_string(CUBLAS_VERSION) +
                " (driver 0) on " + device_->description() + ", here is cuBLASLt 120900 (driver 0) on " +
                device_->description() + "; new ones are chosen");
  EXPECT_TRUE(newer->plans().table().empty());
  faults().version = CUBLAS_VERSION;
  EXPECT_THAT(create({.driver_version = 13020})->plans().adopt(stored), HasSubstr("(driver 13020)"));
  library->plan(forward);
  EXPECT_EQ(library->plans().adopt(stored), "");
  EXPECT_EQ(library->plans().table().size(), 1U) << "what was chosen before is forgotten";
  library->plans().seal();
  EXPECT_THROW(library->plans().adopt(stored), UsageError) << "after the agreement it is too late";
}

TEST_F(GemmPlansTest, AreThoseOfRank0OnEveryRank) {
  const auto rank_0 = with_first_proposal(1);
  std::string sent;
  agree_on_plans(
      rank_0->plans(), true, [&] { rank_0->plan(logits); }, [&](std::string& text) { sent = text; });
  const auto rank_1 = with_first_proposal(0);
  agree_on_plans(
      rank_1->plans(), false, [] { FAIL() << "only rank 0 plans"; }, [&](std::string& text) { text = sent; });
  const int64_t asked = counts().heuristics;
  EXPECT_EQ(run(*rank_1->plan(logits), logits), run(*rank_0->plan(logits), logits));
  EXPECT_EQ(counts().last_algorithm, 1);
  EXPECT_EQ(counts().heuristics, asked);
  for (const auto& rank : {rank_0, rank_1}) {
    EXPECT_EQ(
        message_of<DeviceError>([&] { rank->plan(odd); }),
        "matrix product fp32 (7, 5) += fp32 (3, 7)ᵀ · (3, 5) is not among the 1 that were planned for all "
        "ranks; expected every product of the whole model there");
  }
}

TEST_F(GemmPlansTest, RanksLearnWhyRank0Failed) {
  const auto library = create();
  faults().no_algorithm = true;
  std::string sent;
  const std::string of_rank_0 = message_of<DeviceError>([&] {
    agree_on_plans(
        library->plans(), true, [&] { library->plan(odd); }, [&](std::string& text) { sent = text; });
  });
  EXPECT_THAT(of_rank_0, StartsWith("matrix product fp32 (7, 5) +="));
  const auto receive = [&](std::string& text) { text = sent; };
  EXPECT_EQ(message_of<DeviceError>([&] {
              agree_on_plans(
                  create()->plans(), false, [] {}, receive);
            }),
            "rank 0 could not plan the matrix products: " + of_rank_0);
  faults().no_algorithm = false;
  library->plan(odd);
  sent = library->plans().to_json();
  faults().version = 120900;
  EXPECT_THAT(message_of<DeviceError>([&] {
                agree_on_plans(
                    create()->plans(), false, [] {}, receive);
              }),
              HasSubstr("this rank cuBLASLt 120900"));
}

TEST_F(GemmPlansTest, NeverSplitSums) {
  faults().ignores_masks = true;
  const auto library = create();
  for (const GemmShape& shape : {forward, odd, logits}) run(*library->plan(shape), shape);
  for (const auto& [shape, plan] : library->plans().table()) {
    EXPECT_EQ(plan.split_k, 1) << to_string(shape);
    EXPECT_EQ(plan.reduction, 0) << to_string(shape);
  }
  EXPECT_EQ(counts().matmuls, 3);
  EXPECT_EQ(counts().split_matmuls, 0);

  cuda::GemmPlan split = *library->plans().find(odd);
  split.split_k = 4;
  library->plans().insert(odd, split);
  EXPECT_EQ(message_of<DeviceError>([&] { library->plan(odd); }),
            "fp32 (7, 5) += fp32 (3, 7)ᵀ · (3, 5) by algorithm 3, tile 11, stages 0, cluster 0, 256 bytes of "
            "workspace: sums are split into 4 parts (reduction 0); expected whole ones");
}

TEST_F(GemmPlansTest, OfSeveralCandidatesTheFastestIsTaken) {
  std::vector<std::string> lines;
  const auto library =
      create({.candidates = 3, .log = [&](const std::string& line) { lines.push_back(line); }});
  library->plan(logits);
  EXPECT_EQ(counts().matmuls, 3 * 10) << "two runs to warm up, eight timed";
  EXPECT_GT(library->plans().find(logits)->seconds, 0);
  EXPECT_FALSE(device_->has_arena(ArenaTag::workspace));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], StartsWith("matrix product fp32 (8, 16) = bf16 (8, 640) · (16, 640)ᵀ: algorithm "));
  EXPECT_THAT(lines[0], HasSubstr(" ms"));
  library->plan(logits);
  EXPECT_EQ(counts().matmuls, 3 * 10) << "timed once";
}

}  // namespace
}  // namespace penstock::testing
