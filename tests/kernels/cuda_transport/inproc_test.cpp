// The transport contract between GPUs of one process, and with several ranks on one.
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>

#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

struct Arrangement {
  const char* name;
  int gpus;
  uint64_t shuffle_seed;
};
using Parameters = std::tuple<Arrangement, int, ContractCase>;

class CudaInproc : public testing::TestWithParam<Parameters> {};

TEST_P(CudaInproc, Holds) {
  const auto& [arrangement, ranks, contract] = GetParam();
  fake_cuda::reset({.gpus = arrangement.gpus, .shuffle_seed = arrangement.shuffle_seed});
  EXPECT_NO_THROW(run_inproc(ranks, {}, [&](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    contract.body(rank);
    EXPECT_FALSE(world.stopped());
  }));
  EXPECT_EQ(fake_cuda::lost_because(), "");
}

std::vector<Parameters> every_combination() {
  std::vector<Parameters> all;
  for (const Arrangement& arrangement :
       {Arrangement{"OwnGpus", 4, 0}, Arrangement{"OneGpu", 1, 0}, Arrangement{"TwoGpusShuffled", 2, 7}}) {
    const bool every_size = arrangement.gpus == 4;
    for (const int ranks : every_size ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{3}) {
      for (const auto cases : {message_cases(), collective_cases(), world_cases()}) {
        for (const ContractCase& contract : cases) all.emplace_back(arrangement, ranks, contract);
      }
    }
  }
  return all;
}

std::string combination_name(const testing::TestParamInfo<Parameters>& combination) {
  const auto& [arrangement, ranks, contract] = combination.param;
  return std::string(contract.name) + "_" + arrangement.name + "_" + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(All, CudaInproc, testing::ValuesIn(every_combination()), combination_name);

/// Runs `body` on every rank, and returns what each rank's error said ("" for none).
std::vector<std::string> errors_of(int ranks, void (*body)(Rank&, Communicator&)) {
  fake_cuda::reset();
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  run_inproc(ranks, {}, [&](World& world) {
    const auto queue = [&](Rank& rank) {
      const auto all = world.create("all");
      try {
        body(rank, *all);
        rank.synchronize();
      } catch (const DeviceError& error) {
        errors[static_cast<size_t>(rank.index())] = error.what();
        world.abort(error.what());
      }
    };
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    queue(rank);
  });
  return errors;
}

TEST(CudaInprocFailure, SizesThatDifferAreNamedOnAllRanks) {
  const std::vector<std::string> errors = errors_of(3, [](Rank& rank, Communicator& all) {
    Buffer data(DType::fp32, 8);
    Stream& stream = rank.stream("transfer");
    if (rank.index() == 0) all.exchange(stream, {send_to(1, data.part(0, 3))});
    if (rank.index() == 1) all.exchange(stream, {receive_from(0, data.part(0, 5))});
    if (rank.index() == 2) all.exchange(stream, {receive_from(1, data.part(0, 4))});
    rank.synchronize();
  });
  EXPECT_THAT(errors,
              Each(HasSubstr("rank 0 (world rank 0) sent 12 bytes where 20 bytes are to be received")));
}

TEST(CudaInprocFailure, CollectivesThatDifferAreNamedOnAllRanks) {
  const std::vector<std::string> errors = errors_of(3, [](Rank& rank, Communicator& all) {
    Buffer data(DType::fp32, 8);
    all.all_reduce(rank.stream("reduce"), rank.index() == 2 ? data.part(0, 7) : data.tensor(),
                   Reduction::sum);
    rank.synchronize();
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("rank 0 (world rank 0) does all_reduce of 8 fp32 elements (sum)"),
                         HasSubstr("rank 2 (world rank 2) does all_reduce of 7 fp32 elements (sum)"))));
}

TEST(CudaInprocFailure, ARankThatFailsEndsThePeersWait) {
  const std::vector<std::string> errors = errors_of(2, [](Rank& rank, Communicator& all) {
    Buffer data(DType::fp32, 8);
    Stream& stream = rank.stream("both");
    if (rank.index() == 0) throw DeviceError("NaN in stage 0");
    all.exchange(stream, {receive_from(0, data.part(4, 2))});
    stream.synchronize();
  });
  EXPECT_THAT(errors[0], HasSubstr("NaN in stage 0"));
  EXPECT_THAT(errors[1],
              AllOf(HasSubstr("rank 1"), HasSubstr("NaN in stage 0"), HasSubstr("will not come to pass")));
}

TEST(CudaInprocFailure, PeerAccessThatIsMissingIsToldWhenTheCommunicatorIsMade) {
  fake_cuda::reset({.peer_access = false});
  std::string message;
  try {
    run_inproc(2, {}, [&](World& world) {
      Rank rank(world, StreamMode::queued, nullptr);
      const AbortOnUnwind guard(world);
      const auto all = world.create("all");
    });
  } catch (const DeviceError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("cannot read the memory of GPU"));
}

}  // namespace
}  // namespace penstock::transport
