// The transport contract over NCCL: however few of its kernels fit on a GPU, and whether or not messages are
// buffered.
#include "tests/kernels/transport/contract.h"

#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/nccl/faults.h"
#include "tests/kernels/cuda_transport/nccl/nccl_ranks.h"
#include "tests/kernels/transport/tcp_ranks.h"

namespace penstock::transport {
namespace {

using testing::Each;
using testing::HasSubstr;

struct Arrangement {
  int kernels;
  bool buffered;
  uint64_t shuffle_seed;
};
using Parameters = std::tuple<Arrangement, int, ContractCase>;

void prepare(const Arrangement& arrangement) {
  fake_nccl::reset();
  fake_cuda::reset({.gpus = 4,
                    .communication_kernels = arrangement.kernels,
                    .buffered = arrangement.buffered,
                    .shuffle_seed = arrangement.shuffle_seed});
}

void hold(World& world, const ContractCase& contract) {
  Rank rank(world, StreamMode::queued, nullptr);
  const AbortOnUnwind guard(world);
  contract.body(rank);
  EXPECT_FALSE(world.stopped()) << world.stop_reason();
}

class NcclContract : public testing::TestWithParam<Parameters> {};

TEST_P(NcclContract, Holds) {
  const auto& [arrangement, ranks, contract] = GetParam();
  prepare(arrangement);
  const auto errors = run_nccl(ranks, {}, [&, contract = contract](World& world) {
    EXPECT_EQ(world.transport(), "nccl");
    hold(world, contract);
  });
  EXPECT_THAT(errors, Each(std::string()));
  EXPECT_EQ(fake_cuda::lost_because(), "");
  EXPECT_EQ(fake_nccl::communicators(), 0);
  EXPECT_EQ(fake_nccl::aborts(), 0);
}

/// A rank's operations run one after another: those cases that do without more.
std::vector<ContractCase> cases_in_one_order() {
  std::vector<ContractCase> all;
  for (const ContractCase& contract : all_cases())
    if (!contract.needs_queues) all.push_back(contract);
  return all;
}

std::vector<Parameters> every_combination() {
  std::vector<Parameters> all;
  for (const Arrangement& arrangement :
       {Arrangement{1, false, 0}, Arrangement{1, true, 0}, Arrangement{2, false, 3}, Arrangement{2, true, 4},
        Arrangement{8, false, 0}, Arrangement{8, true, 5}}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const ContractCase& contract : cases_in_one_order())
        all.emplace_back(arrangement, ranks, contract);
    }
  }
  return all;
}

std::string combination_name(const testing::TestParamInfo<Parameters>& combination) {
  const auto& [arrangement, ranks, contract] = combination.param;
  return std::string(contract.name) + "_" + std::to_string(arrangement.kernels) +
         (arrangement.buffered ? "_Buffered_" : "_Unbuffered_") + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(All, NcclContract, testing::ValuesIn(every_combination()), combination_name);

/// Hosts that are processes: clocks too are compared through them.
TEST(NcclOverTcp, Holds) {
  prepare({8, false, 0});
  for (const int ranks : {2, 3}) {
    const auto errors = run_tcp(ranks, [](World& hosts) {
      const auto world = make_nccl_world(hosts);
      const AbortOnUnwind guard(*world);
      EXPECT_EQ(&world->hosts(), &hosts);
      EXPECT_THAT(world->description(), HasSubstr("meet over tcp"));
      for (const auto cases : {clock_cases(), world_cases()})
        for (const ContractCase& contract : cases) hold(*world, contract);
    });
    EXPECT_THAT(errors, Each(std::string()));
  }
  EXPECT_EQ(fake_nccl::communicators(), 0);
}

}  // namespace
}  // namespace penstock::transport
