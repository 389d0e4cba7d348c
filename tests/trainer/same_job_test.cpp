#include "trainer/same_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "kernels/transport/launch.h"

namespace penstock {
namespace {

using testing::HasSubstr;

// What rank `mine` of three is told, where rank 1's job was changed.
std::string told(int mine, void (*change)(Job&)) {
  std::string text;
  transport::run_inproc(3, {}, [&](transport::World& world) {
    Job job;
    if (world.rank() == 1) change(job);
    try {
      check_same_job(job, world);
    } catch (const transport::LaunchError& error) {
      if (world.rank() == mine) text = error.what();
    }
  });
  return text;
}

TEST(SameJob, IsWhatAllRanksHave) {
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(told(rank, [](Job&) {}), "");
}

TEST(SameJob, AnotherOneIsNamedOnEveryRankByItsFirstKeyThatDiffers) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(told(rank,
                     [](Job& job) {
                       job.learning_rate.max = 0.5;
                       job.run.seed = 9;
                     }),
                HasSubstr("rank 1 was started with another job than rank 0: found run.seed = 9, expected "
                          "run.seed = "));
  }
  EXPECT_THAT(told(0, [](Job& job) { job.model.hidden_size = 77; }),
              HasSubstr("found model.hidden_size = 77"));
}

TEST(SameBuild, AnotherProgramIsNamedOnEveryRank) {
  transport::run_inproc(3, {}, [](transport::World& world) {
    check_same_build(own_build(), world);
    try {
      check_same_build(world.rank() == 2 ? "penstock 0.1.0 (old)" : own_build(), world);
      ADD_FAILURE() << "rank " << world.rank() << " took it";
    } catch (const transport::LaunchError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("rank 2 is another program than rank 0: found penstock 0.1.0 (old), "
                            "expected " +
                            own_build()));
    }
  });
}

}  // namespace
}  // namespace penstock
