// How NCCL fails: every wait ends, and is told in words.
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "kernels/transport/launch.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/nccl/faults.h"
#include "tests/kernels/cuda_transport/nccl/nccl_ranks.h"
#include "tests/kernels/transport/contract.h"
#include "tests/kernels/transport/tcp_ranks.h"

namespace penstock::transport {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

class NcclFailure : public testing::Test {
 public:
  NcclFailure() {
    fake_nccl::reset();
    fake_cuda::reset({.gpus = 4});
  }
  ~NcclFailure() override {
    fake_nccl::let_aborts_return();
    // Aborts are nobody's to wait for, but the next test begins with none.
    while (fake_nccl::communicators() > 0) std::this_thread::sleep_for(1ms);
  }

  using Body = std::function<void(Rank&, Communicator&)>;
  static std::vector<std::string> errors_of(int ranks, const Body& body, const NcclOptions& options = {}) {
    return run_nccl(ranks, options, [&](World& world) { run(world, body); });
  }
  static void run(World& world, const Body& body) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto all = world.create("all");
    body(rank, *all);
    rank.synchronize();
  }
};

void wait_for_a_message(Rank& rank, Communicator& all) {
  Buffer data(DType::fp32, 8);
  Stream& stream = rank.stream("receive");
  all.barrier(stream);  // connected
  stream.synchronize();
  all.exchange(stream, {send_to(rank.next(), data.part(0, 2)), receive_from(rank.next(), data.part(2, 2))});
  stream.synchronize();
  if (rank.index() != 0) all.exchange(stream, {receive_from(0, data.part(4, 4))});
  all.barrier(stream);
  stream.synchronize();
}

TEST_F(NcclFailure, ARankThatFailsEndsThePeersWait) {
  for (const bool hanging : {false, true}) {
    if (hanging) fake_nccl::hold_aborts();
    const auto errors = errors_of(2, [](Rank& rank, Communicator& all) {
      if (rank.index() == 0) {
        Buffer data(DType::fp32, 8);
        Stream& stream = rank.stream("send");
        all.barrier(stream);
        all.exchange(stream, {send_to(1, data.part(0, 2)), receive_from(1, data.part(2, 2))});
        stream.synchronize();
        throw std::runtime_error("NaN in stage 0");
      }
      wait_for_a_message(rank, all);
    });
    EXPECT_EQ(errors[0], "NaN in stage 0");
    EXPECT_THAT(errors[1], AllOf(HasSubstr("rank 1"), HasSubstr("world rank 0 left with an error")));
    const int expected = hanging ? 4 : 2;  // one a rank and round, by threads that may be late
    while (fake_nccl::aborts() < expected) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(fake_nccl::aborts(), expected);
    EXPECT_TRUE(nccl_given_up());
  }
}

TEST_F(NcclFailure, WhatNcclFindsByItselfEndsEveryWait) {
  const auto errors = errors_of(3, [](Rank& rank, Communicator& all) {
    Stream& stream = rank.stream("transfer");
    all.barrier(stream);
    stream.synchronize();
    if (rank.index() == 2) {
      std::this_thread::sleep_for(20ms);
      fake_nccl::break_communicators(1, ncclRemoteError);
      while (!rank.world().stopped()) std::this_thread::sleep_for(1ms);
    }
    all.barrier(stream);
    stream.synchronize();
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("communicator \"all\", rank 1 of 3 (world rank 1): NCCL lost it: remote "
                                   "process exited or there was a network error (code 6)"),
                         HasSubstr("its log says why"))));
}

TEST_F(NcclFailure, APeerThatDiesIsNamedByTheHosts) {
  const auto errors = run_tcp(2, [](World& hosts) {
    const auto world = make_nccl_world(hosts);
    const AbortOnUnwind guard(*world);
    run(*world, [](Rank& rank, Communicator& all) {
      Stream& stream = rank.stream("transfer");
      all.barrier(stream);
      stream.synchronize();
      if (rank.index() == 1) throw std::runtime_error("killed");
      all.barrier(stream);
      stream.synchronize();
    });
  });
  EXPECT_EQ(errors[1], "killed");
  EXPECT_THAT(errors[0], HasSubstr("lost world rank 1"));
}

TEST_F(NcclFailure, ARankThatDoesNotConnectIsNotWaitedForLongerThanTold) {
  const NcclOptions options{.start = 80ms};
  const auto errors = run_nccl(2, options, [](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    if (world.rank() == 1) fake_nccl::fail_call("ncclCommInitRankConfig", ncclSystemError);
    world.barrier();
    static_cast<void>(world.create("all"));
  });
  // Whichever rank it was that NCCL refused.
  EXPECT_THAT(errors[0] + errors[1], AllOf(HasSubstr("communicator \"all\""),
                                           HasSubstr("connecting: ncclCommInitRankConfig: unhandled system "
                                                     "error (code 2)"),
                                           HasSubstr("NCCL_SOCKET_IFNAME")));
  const auto late = run_nccl(2, options, [](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto all = world.create("all");
    if (world.rank() == 1) {
      while (!world.stopped()) std::this_thread::sleep_for(1ms);  // it never asks for the message
      return;
    }
    Buffer data(DType::u8, 100);
    all->exchange(rank.stream("send"), {send_to(1, data.tensor())});
  });
  EXPECT_THAT(late[0],
              AllOf(HasSubstr("communicator \"all\", rank 0 of 2 (world rank 0): exchange: send of 100 bytes "
                              "to rank 1 (world rank 1)"),
                    HasSubstr("did not end within 0.08 s"), HasSubstr("NCCL_DEBUG")));
}

TEST_F(NcclFailure, ACallThatIsRefusedStopsTheWorldAndNamesItself) {
  const auto errors = errors_of(2, [](Rank& rank, Communicator& all) {
    Buffer data(DType::fp32, 8);
    Stream& stream = rank.stream("reduce");
    all.barrier(stream);
    stream.synchronize();
    if (rank.index() == 0) fake_nccl::fail_call("ncclAllReduce", ncclUnhandledCudaError);
    if (rank.index() == 0) all.all_reduce(stream, data.tensor(), Reduction::sum);
    stream.host_task("wait", 0, [] { std::this_thread::sleep_for(30ms); });
    all.barrier(stream);
    stream.synchronize();
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("rank 0 of 2 (world rank 0): all_reduce of 8 fp32 elements: all_reduce: "
                                   "unhandled cuda error (code 1)"),
                         HasSubstr("driver too old"))));
}

TEST_F(NcclFailure, TwoRanksOnOneGpuAreRefused) {
  fake_cuda::reset({.gpus = 1});
  const auto errors = errors_of(2, [](Rank&, Communicator&) {});
  EXPECT_THAT(errors[0] + errors[1],
              AllOf(HasSubstr("one rank a GPU"), HasSubstr("parallel.share_devices = true"),
                    HasSubstr("comm.transport = \"inproc\"")));
}

TEST_F(NcclFailure, TheGpuIsKnownBeforeACommunicatorIsMade) {
  run_inproc(1, {}, [](World& hosts) {
    const auto world = make_nccl_world(hosts);
    EXPECT_THAT([&] { world->create("all"); }, ThrowsMessage<UsageError>(HasSubstr("attach() it first")));
  });
}

TEST_F(NcclFailure, ALibraryThatIsAbsentOrTooOldIsTheLaunchsFault) {
  fake_nccl::set_version(2708);
  run_inproc(1, {}, [](World& hosts) {
    EXPECT_THAT(
        [&] { make_nccl_world(hosts); },
        ThrowsMessage<LaunchError>(AllOf(HasSubstr("2.18.0 or newer"), HasSubstr("LD_LIBRARY_PATH"))));
    fake_nccl::fail_call("ncclGetVersion", ncclSystemError);
    EXPECT_THAT([&] { make_nccl_world(hosts); }, ThrowsMessage<LaunchError>(HasSubstr("opening NCCL")));
  });
}

TEST_F(NcclFailure, PageableMemoryIsRefused) {
  const auto errors = errors_of(1, [](Rank& rank, Communicator& all) {
    int word = 0;
    const Tensor tensor(&word, DType::i32, Shape{1});
    all.exchange(rank.stream("transfer"), {send_to(0, tensor), receive_from(0, tensor)});
  });
  EXPECT_THAT(errors[0], HasSubstr("invalid argument"));
}

}  // namespace
}  // namespace penstock::transport
