#include <array>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Runs `body` on every rank, and returns what each stream's error said ("" for none).
std::vector<std::string> errors_of(int ranks, StreamMode mode, void (*body)(Rank&, Communicator&)) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  run_inproc(ranks, {}, [&](World& world) {
    Rank rank(world, mode, nullptr);
    const AbortOnUnwind guard(world);
    const auto all = world.create("all");
    try {
      body(rank, *all);
      rank.synchronize();
    } catch (const DeviceError& error) {
      errors[static_cast<size_t>(rank.index())] = error.what();
      world.abort(error.what());
    }
  });
  return errors;
}

class Failure : public testing::TestWithParam<StreamMode> {};
std::string mode_name(const testing::TestParamInfo<StreamMode>& mode) {
  switch (mode.param) {
    case StreamMode::queued:
      return "Queued";
    case StreamMode::inline_now:
      return "Inline";
    case StreamMode::shuffled:
      return "Shuffled";
  }
  return "Unknown";
}
INSTANTIATE_TEST_SUITE_P(Modes, Failure,
                         testing::Values(StreamMode::queued, StreamMode::inline_now, StreamMode::shuffled),
                         mode_name);

TEST_P(Failure, SizesThatDifferAreNamedOnAllRanks) {
  const std::vector<std::string> errors = errors_of(3, GetParam(), [](Rank& rank, Communicator& all) {
    Buffer data(DType::fp32, 8);
    Stream& stream = rank.stream("transfer");
    if (rank.index() == 0) all.exchange(stream, {send_to(1, data.part(0, 3))});
    if (rank.index() == 1) all.exchange(stream, {receive_from(0, data.part(0, 5))});
    if (rank.index() == 2) all.exchange(stream, {receive_from(1, data.part(0, 4))});
    rank.synchronize();
  });
  const char* const cause = "rank 0 (world rank 0) sent 12 bytes where 20 bytes are to be received";
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 0, stream \"transfer\": task \"exchange\" failed"),
                               HasSubstr("send of 12 bytes to rank 1 (world rank 1) will not come to pass"),
                               HasSubstr(cause)));
  EXPECT_THAT(errors[1], AllOf(HasSubstr("communicator \"all\", rank 1 of 3 (world rank 1): exchange"),
                               HasSubstr(cause)));
  EXPECT_THAT(errors[2], AllOf(HasSubstr("receive of 16 bytes from rank 1"), HasSubstr(cause)));
}

TEST_P(Failure, CollectivesThatDifferAreNamedOnAllRanks) {
  const std::vector<std::string> errors = errors_of(3, GetParam(), [](Rank& rank, Communicator& all) {
    Buffer data(DType::fp32, 8);
    all.all_reduce(rank.stream("reduce"), rank.index() == 2 ? data.part(0, 7) : data.tensor(),
                   Reduction::sum);
    rank.synchronize();
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("rank 0 (world rank 0) does all_reduce of 8 fp32 elements (sum)"),
                         HasSubstr("rank 2 (world rank 2) does all_reduce of 7 fp32 elements (sum)"))));
}

TEST_P(Failure, AnOperationDroppedBehindAnErrorEndsThePeersWait) {
  const std::vector<std::string> errors = errors_of(2, GetParam(), [](Rank& rank, Communicator& all) {
    Buffer data(DType::fp32, 8);
    Stream& stream = rank.stream("both");
    if (rank.index() == 0) {
      stream.host_task("compute", 0.0, [] { throw std::runtime_error("NaN in stage 0"); });
    }
    all.exchange(stream, {send_to(rank.next(), data.part(0, 2)), receive_from(rank.next(), data.part(4, 2))});
    rank.synchronize();
  });
  EXPECT_THAT(errors[0], HasSubstr("task \"compute\" failed: NaN in stage 0"));
  EXPECT_THAT(errors[1], HasSubstr("will not come to pass: "));
  // Inline, the error surfaces before there is an exchange to drop.
  const bool dropped = GetParam() != StreamMode::inline_now;
  EXPECT_THAT(errors[1], HasSubstr(dropped ? "exchange was dropped, because earlier work on its stream failed"
                                           : "NaN in stage 0"));
}

TEST_P(Failure, AbortEndsEveryWait) {
  std::mutex mutex;
  std::vector<std::string> errors;
  run_inproc(3, {}, [&](World& world) {
    Rank rank(world, GetParam(), nullptr);
    const AbortOnUnwind guard(world);
    const auto all = world.create("all");
    Buffer data(DType::fp32, 8);
    const auto wait = [&](const auto& operation) {
      try {
        operation();
      } catch (const DeviceError& error) {
        const std::lock_guard lock(mutex);
        errors.emplace_back(error.what());
      }
    };
    if (rank.index() == 0) {
      wait([&] {
        all->exchange(rank.stream("transfer"), {receive_from(2, data.tensor())});
        rank.synchronize();
      });
    } else if (rank.index() == 1) {
      wait([&] {
        all->barrier(rank.stream("transfer"));
        rank.synchronize();
      });
    } else {
      world.abort("the watchdog of rank 2 saw no progress");
      world.abort("a later reason");
    }
    EXPECT_TRUE(world.stopped() || rank.index() < 2);
    wait([&] { world.barrier(); });
  });
  EXPECT_EQ(errors.size(), 5u);
  EXPECT_THAT(errors, Each(HasSubstr("the watchdog of rank 2 saw no progress")));
}

TEST(RunInproc, RethrowsWhatCameFirst) {
  EXPECT_THAT(
      [] {
        run_inproc(3, {}, [](World& world) {
          Rank rank(world, StreamMode::queued, nullptr);
          const AbortOnUnwind guard(world);
          const auto all = world.create("all");
          all->barrier(rank.stream("transfer"));
          rank.synchronize();
          if (world.rank() == 1) throw std::runtime_error("no such file: train.bin");
          try {
            world.barrier();
          } catch (const DeviceError&) {
            return;
          }
          ADD_FAILURE() << "the barrier of an incomplete world passed";
        });
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("no such file: train.bin")));
}

TEST(RunInproc, UnwindingDoesNotWaitForPeers) {
  // Rank 0 throws while its stream holds a receive that nobody will ever send to.
  std::string other;
  EXPECT_THAT(
      [&] {
        run_inproc(2, {}, [&](World& world) {
          Rank rank(world, StreamMode::queued, nullptr);
          const AbortOnUnwind guard(world);
          Buffer data(DType::fp32, 8);
          const auto all = world.create("all");
          all->exchange(rank.stream("transfer"), {receive_from(rank.next(), data.tensor())});
          if (world.rank() == 0) throw std::runtime_error("disk full");
          try {
            rank.synchronize();
          } catch (const DeviceError& error) {
            other = error.what();
          }
        });
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("disk full")));
  EXPECT_THAT(other, HasSubstr("world rank 0 left with an error"));
}

TEST(InprocOptionsChecks, NamesWhatIsWrong) {
  EXPECT_THAT([] { make_inproc_worlds(0); }, ThrowsMessage<UsageError>(HasSubstr("0 ranks")));
  InprocOptions options;
  options.links = LinkModel(3, {1e-6});
  EXPECT_THAT([&] { make_inproc_worlds(2, options); },
              ThrowsMessage<UsageError>(HasSubstr("a link model of 3 ranks for an inproc world of 2")));
  EXPECT_THAT([&] { options.links.set(0, 3, {}); }, ThrowsMessage<UsageError>(HasSubstr("ranks 0 to 2")));
}

TEST(InprocOptionsChecks, ClocksAreOfOneKind) {
  run_inproc(1, {}, [](World& world) {
    Rank real(world, StreamMode::queued, nullptr);
    Rank imagined(world, StreamMode::queued, make_virtual_clock());
    const auto all = world.create("all");
    all->barrier(real.stream("transfer"));
    EXPECT_THAT([&] { all->barrier(imagined.stream("transfer")); },
                ThrowsMessage<UsageError>(HasSubstr("is on a virtual clock")));
    real.synchronize();
  });
  InprocOptions options;
  options.buffered = true;
  run_inproc(1, options, [](World& world) {
    Rank rank(world, StreamMode::queued, make_virtual_clock());
    const auto all = world.create("all");
    EXPECT_THAT([&] { all->barrier(rank.stream("transfer")); },
                ThrowsMessage<UsageError>(HasSubstr("a buffered world needs real ones")));
  });
}

}  // namespace
}  // namespace penstock::transport
