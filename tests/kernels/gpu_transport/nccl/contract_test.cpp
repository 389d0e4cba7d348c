// The transport contract over NCCL on the GPUs that there are. Two ranks on one GPU: where NCCL allows it.
#include "tests/kernels/transport/contract.h"

#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>

#include "tests/kernels/cuda_transport/nccl/nccl_ranks.h"

namespace penstock::transport {
namespace {

using Parameters = std::tuple<int, ContractCase>;

class GpuNccl : public testing::TestWithParam<Parameters> {};

TEST_P(GpuNccl, Holds) {
  const auto& [ranks, contract] = GetParam();
  const auto errors = run_nccl(ranks, {}, [contract = contract](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    contract.body(rank);
    EXPECT_FALSE(world.stopped()) << world.stop_reason();
  });
  EXPECT_THAT(errors, testing::Each(std::string()));
}

/// A rank's operations run one after another: those cases that do without more.
std::vector<Parameters> every_combination() {
  std::vector<Parameters> all;
  for (const int ranks : {1, 2}) {
    for (const ContractCase& contract : all_cases())
      if (!contract.needs_queues) all.emplace_back(ranks, contract);
  }
  return all;
}

std::string combination_name(const testing::TestParamInfo<Parameters>& combination) {
  const auto& [ranks, contract] = combination.param;
  return std::string(contract.name) + "_" + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(All, GpuNccl, testing::ValuesIn(every_combination()), combination_name);

}  // namespace
}  // namespace penstock::transport
