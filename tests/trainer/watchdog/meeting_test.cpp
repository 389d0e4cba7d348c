#include "trainer/watchdog/meeting.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/transport/inproc/inproc_world.h"

namespace penstock::watchdog {
namespace {

std::string next_line(LineLink& link) {
  for (int i = 0; i < 5000 && link; ++i) {
    link.flush();
    for (const std::string& line : link.receive()) return line;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return link ? "nothing" : "closed";
}

TEST(Meeting, ConnectsEverybodyWithRankZero) {
  constexpr int ranks = 3;
  transport::run_inproc(ranks, {}, [&](transport::World& world) {
    Channel channel = meet(world, "");
    EXPECT_EQ(channel.failure, "");
    ASSERT_EQ(channel.links.size(), static_cast<size_t>(ranks));
    for (size_t peer = 0; peer < ranks; ++peer) {
      const bool expected = world.rank() == 0 ? peer > 0 : peer == 0;
      EXPECT_EQ(static_cast<bool>(channel.links[peer]), expected);
      EXPECT_THAT(channel.places[peer], testing::HasSubstr("process "));
    }
    if (world.rank() == 0) {
      for (size_t peer = 1; peer < ranks; ++peer)
        channel.links[peer].send("to " + std::to_string(peer) + "\n");
      for (size_t peer = 1; peer < ranks; ++peer)
        EXPECT_EQ(next_line(channel.links[peer]), "from " + std::to_string(peer));
    } else {
      channel.links[0].send("from " + std::to_string(world.rank()) + "\n");
      EXPECT_EQ(next_line(channel.links[0]), "to " + std::to_string(world.rank()));
    }
    world.barrier();
    // A rank that goes without a word is noticed at once.
    if (world.rank() == 2) channel.links[0].close();
    if (world.rank() == 0) {
      EXPECT_EQ(next_line(channel.links[2]), "closed");
    }
    world.barrier();
  });
}

TEST(Meeting, AnAddressWhereNobodyIsDoesNoHarm) {
  transport::run_inproc(2, {}, [&](transport::World& world) {
    const Channel channel = meet(world, "no-such-host.invalid");
    EXPECT_EQ(channel.failure, "");
    EXPECT_TRUE(static_cast<bool>(channel.links[static_cast<size_t>(1 - world.rank())]));
  });
}

}  // namespace
}  // namespace penstock::watchdog
