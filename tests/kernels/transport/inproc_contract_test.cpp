#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

struct Arrangement {
  const char* name;
  StreamMode mode;
  bool buffered;
  bool on_virtual_clock;
};

constexpr std::array arrangements{
    Arrangement{"Queued", StreamMode::queued, false, false},
    Arrangement{"QueuedBuffered", StreamMode::queued, true, false},
    Arrangement{"Shuffled", StreamMode::shuffled, false, false},
    Arrangement{"ShuffledBuffered", StreamMode::shuffled, true, false},
    Arrangement{"Inline", StreamMode::inline_now, false, false},
    Arrangement{"InlineBuffered", StreamMode::inline_now, true, false},
    Arrangement{"Virtual", StreamMode::queued, false, true},
};

using Parameters = std::tuple<Arrangement, int, ContractCase>;

class InprocContract : public testing::TestWithParam<Parameters> {};

TEST_P(InprocContract, Holds) {
  const auto& [arrangement, ranks, contract] = GetParam();
  InprocOptions options;
  options.buffered = arrangement.buffered;
  EXPECT_NO_THROW(run_inproc(ranks, options, [&](World& world) {
    EXPECT_EQ(world.transport(), "inproc");
    EXPECT_EQ(world.size(), ranks);
    Rank rank(world, arrangement.mode, arrangement.on_virtual_clock ? make_virtual_clock() : nullptr);
    const AbortOnUnwind guard(world);
    contract.body(rank);
    EXPECT_FALSE(world.stopped());
  }));
}

std::vector<Parameters> every_combination() {
  std::vector<Parameters> all;
  for (const Arrangement& arrangement : arrangements) {
    // All sizes where threads meet most freely, two of them elsewhere.
    const bool every_size = arrangement.mode == StreamMode::queued && !arrangement.buffered;
    for (const int ranks : every_size ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{2, 3}) {
      for (const ContractCase& contract : all_cases()) {
        if (contract.needs_queues && arrangement.mode == StreamMode::inline_now) continue;
        all.emplace_back(arrangement, ranks, contract);
      }
    }
  }
  return all;
}

std::string combination_name(const testing::TestParamInfo<Parameters>& combination) {
  const auto& [arrangement, ranks, contract] = combination.param;
  return std::string(contract.name) + "_" + arrangement.name + "_" + std::to_string(ranks);
}

TEST(InprocLate, PeersMayBeSecondsLate) {
  const auto cases = message_cases();
  const auto late = std::find_if(cases.begin(), cases.end(), [](const ContractCase& contract) {
    return std::string_view(contract.name) == "LatePeersAreWaitedFor";
  });
  ASSERT_NE(late, cases.end());
  for (const bool buffered : {false, true}) {
    InprocOptions options;
    options.buffered = buffered;
    EXPECT_NO_THROW(run_inproc(2, options, [&](World& world) {
      Rank rank(world, StreamMode::queued, nullptr, std::chrono::milliseconds(1100));
      const AbortOnUnwind guard(world);
      late->body(rank);
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(All, InprocContract, testing::ValuesIn(every_combination()), combination_name);

}  // namespace
}  // namespace penstock::transport
