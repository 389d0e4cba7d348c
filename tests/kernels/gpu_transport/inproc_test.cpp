// The transport contract between ranks of one process on the GPUs that there are.
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

using Parameters = std::tuple<int, ContractCase>;

class GpuInproc : public testing::TestWithParam<Parameters> {};

TEST_P(GpuInproc, Holds) {
  const auto& [ranks, contract] = GetParam();
  EXPECT_NO_THROW(run_inproc(ranks, {}, [&](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    contract.body(rank);
    EXPECT_FALSE(world.stopped());
  }));
}

std::vector<Parameters> every_combination() {
  std::vector<Parameters> all;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto cases : {message_cases(), collective_cases(), world_cases()}) {
      for (const ContractCase& contract : cases) all.emplace_back(ranks, contract);
    }
  }
  return all;
}

std::string combination_name(const testing::TestParamInfo<Parameters>& combination) {
  const auto& [ranks, contract] = combination.param;
  return std::string(contract.name) + "_" + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(All, GpuInproc, testing::ValuesIn(every_combination()), combination_name);

}  // namespace
}  // namespace penstock::transport
