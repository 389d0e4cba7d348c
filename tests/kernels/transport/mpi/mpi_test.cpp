// The contract under MPI: every rank runs every test, and the verdict of a test is that of all ranks.
//   mpirun -n 3 test_kernels_transport_mpi [--synchronous] [--buffered] [--seconds-late] [gtest options]
//     --synchronous: nothing is buffered; --buffered: fails (by never ending) unless the library, as it is
//     set, buffers
//   mpirun -n 2 test_kernels_transport_mpi --differing-sizes     ends with the error's text and status 7
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "kernels/transport/mpi_world.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

std::unique_ptr<World> the_world;
// Long enough for a wait between processes to grow through all its stages.
std::chrono::milliseconds lateness(300);

class MpiContract : public testing::TestWithParam<ContractCase> {};

TEST_P(MpiContract, Holds) {
  EXPECT_EQ(the_world->transport(), "mpi");
  Rank rank(*the_world, StreamMode::queued, nullptr, lateness);
  const AbortOnUnwind guard(*the_world);
  GetParam().body(rank);
}

std::string case_name(const testing::TestParamInfo<ContractCase>& contract) {
  return contract.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, MpiContract, testing::ValuesIn(all_cases()), case_name);

TEST(MpiWorld, IsMadeOnce) {
  EXPECT_THAT([] { make_mpi_world(); },
              testing::ThrowsMessage<DeviceError>(testing::HasSubstr("initialised before")));
}

TEST(MpiWorld, TakesNoVirtualClocks) {
  Rank rank(*the_world, StreamMode::queued, make_virtual_clock());
  const auto all = the_world->create("all");
  EXPECT_THAT([&] { all->barrier(rank.stream("transfer")); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("is on a virtual clock")));
}

/// After each test all ranks learn whether it failed anywhere; rank 0 prints.
class MergedVerdict : public testing::EmptyTestEventListener {
 public:
  explicit MergedVerdict(World& world) : world_(world) {}

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed() && world_.rank() != 0)
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", world_.rank(), result.file_name(), result.line_number(),
                   result.message());
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    std::array<int64_t, 1> failed{info.result()->Failed() ? 1 : 0};
    world_.all_reduce(failed, Reduction::sum);
    if (failed[0] > 0 && !info.result()->Failed())
      ADD_FAILURE() << "failed on " << failed[0] << " other ranks";
  }

  World& world_;
};

/// Provokes the error of sizes that differ: what it says can be seen only as a process that ends by it.
int differ(World& world) {
  Rank rank(world, StreamMode::queued, nullptr);
  const auto pair = world.create("pair");
  Buffer data(DType::fp32, 8);
  try {
    pair->exchange(rank.stream("transfer"),
                   {rank.index() == 0 ? send_to(1, data.part(0, 3)) : receive_from(0, data.part(0, 5))});
    rank.synchronize();
    world.barrier();
  } catch (const DeviceError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 7;
  }
  return 0;
}

/// Ends only where the library buffers: who sends is done before a receiver is there.
void expect_buffering(World& world) {
  Rank rank(world, StreamMode::queued, nullptr);
  const auto ring = world.create("ring");
  Buffer sent(DType::u8, 120000);
  Buffer received(DType::u8, 120000);
  sent.fill(rank.index());
  ring->exchange(rank.stream("send"), {send_to(rank.next(), sent.tensor())});
  rank.synchronize();
  world.barrier();
  ring->exchange(rank.stream("receive"), {receive_from(rank.previous(), received.tensor())});
  rank.synchronize();
  EXPECT_EQ(difference_from(received, rank.previous()), "");
}

int run(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  MpiOptions options;
  bool differing_sizes = false;
  bool buffered = false;
  for (const std::string_view argument : std::span(argv, static_cast<size_t>(argc)).subspan(1)) {
    if (argument == "--synchronous") {
      // Nothing is buffered, and messages go in many pieces.
      options.synchronous_sends = true;
      options.piece_bytes = 8192;
    } else if (argument == "--seconds-late") {
      lateness = std::chrono::milliseconds(2500);
    } else if (argument == "--buffered") {
      buffered = true;
    } else if (argument == "--differing-sizes") {
      differing_sizes = true;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", std::string(argument).c_str());
      return 2;
    }
  }
  the_world = make_mpi_world(options);
  int status = 0;
  if (differing_sizes) {
    status = differ(*the_world);
  } else {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    if (the_world->rank() != 0) delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new MergedVerdict(*the_world));
    if (buffered) expect_buffering(*the_world);
    status = RUN_ALL_TESTS();
    if (testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed()) status = 1;
  }
  the_world.reset();
  return status;
}

}  // namespace
}  // namespace penstock::transport

int main(int argc, char** argv) {
  try {
    return penstock::transport::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
