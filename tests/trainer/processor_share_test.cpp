#include "trainer/processor_share.h"

#include <gtest/gtest.h>

#include "kernels/cpu/processor.h"
#include "kernels/transport/inproc/inproc_world.h"

namespace penstock {
namespace {

TEST(ProcessorShare, IsOfTheMostCrowdedHost) {
  const ProcessorShare share = most_crowded({{"a", {0, 1}}, {"b", {0, 1}}, {"b", {0, 1}}}, 2);
  EXPECT_EQ(share.ranks, 2);
  EXPECT_EQ(share.processors, 2);
  EXPECT_TRUE(share.crowded());
  EXPECT_EQ(share.load(), 2);
  EXPECT_EQ(share.text(), "2 ranks x 2 threads share 2 processors");
}

TEST(ProcessorShare, OfBoundRanksIsTheirOwn) {
  // Together they have enough, but each is bound to one.
  const ProcessorShare bound = most_crowded({{"a", {0}}, {"a", {1}}, {"a", {2, 3, 4, 5}}}, 2);
  EXPECT_EQ(bound.ranks, 1);
  EXPECT_EQ(bound.text(), "1 rank x 2 threads share 1 processor");
  EXPECT_FALSE(most_crowded({{"a", {0}}, {"a", {1}}}, 1).crowded());
}

TEST(ProcessorShare, OfAWorldIsTheSameOnAllRanks) {
  const auto here = static_cast<int>(cpu::allowed_processors().size());
  transport::run_inproc(3, {}, [&](transport::World& world) {
    const ProcessorShare share = processor_share(here, world);
    EXPECT_EQ(share.ranks, 3);
    EXPECT_EQ(share.threads, here);
    EXPECT_EQ(share.processors, here);
    EXPECT_EQ(share.load(), 3);
  });
  EXPECT_FALSE(processor_share_here(1, here).crowded());
  EXPECT_TRUE(processor_share_here(2, here).crowded());
}

}  // namespace
}  // namespace penstock
