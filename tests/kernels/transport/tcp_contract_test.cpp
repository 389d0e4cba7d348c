// The contract over TCP on the loopback, and how it fails.
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "kernels/transport/launch.h"
#include "kernels/transport/tcp/socket.h"
#include "tests/kernels/transport/contract.h"
#include "tests/kernels/transport/tcp_ranks.h"

namespace penstock::transport {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Parameters = std::tuple<StreamMode, int, ContractCase>;

class TcpContract : public testing::TestWithParam<Parameters> {};

TEST_P(TcpContract, Holds) {
  const auto& [mode, ranks, contract] = GetParam();
  const auto errors = run_tcp(ranks, [&, mode = mode, contract = contract](World& world) {
    EXPECT_EQ(world.transport(), "tcp");
    Rank rank(world, mode, nullptr);
    const AbortOnUnwind guard(world);
    contract.body(rank);
    EXPECT_FALSE(world.stopped());
  });
  EXPECT_THAT(errors, Each(std::string()));
}

std::vector<Parameters> every_combination() {
  std::vector<Parameters> all;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const ContractCase& contract : all_cases()) all.emplace_back(StreamMode::queued, ranks, contract);
  }
  for (const ContractCase& contract : all_cases()) all.emplace_back(StreamMode::shuffled, 3, contract);
  return all;
}

std::string combination_name(const testing::TestParamInfo<Parameters>& combination) {
  const auto& [mode, ranks, contract] = combination.param;
  return std::string(contract.name) + (mode == StreamMode::queued ? "_Queued_" : "_Shuffled_") +
         std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(All, TcpContract, testing::ValuesIn(every_combination()), combination_name);

// Reductions combine in rank order: floats do not tell it from inproc.
TEST(TcpBits, SumsAreInprocs) {
  constexpr int ranks = 3;
  constexpr int64_t elements = 1001;
  const auto sum = [](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const auto all = world.create("all");
    std::vector<float> values(elements);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 1.0f / static_cast<float>(1 + i * 7 + static_cast<size_t>(world.rank()) * 1000003);
    const Tensor tensor(values.data(), DType::fp32, {elements});
    all->all_reduce(rank.stream("reduce"), tensor, Reduction::sum);
    rank.synchronize();
    return values;
  };
  std::array<std::vector<float>, ranks> over_tcp;
  std::array<std::vector<float>, ranks> inproc;
  const auto errors =
      run_tcp(ranks, [&](World& world) { over_tcp[static_cast<size_t>(world.rank())] = sum(world); });
  EXPECT_THAT(errors, Each(std::string()));
  run_inproc(ranks, {}, [&](World& world) { inproc[static_cast<size_t>(world.rank())] = sum(world); });
  for (size_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(over_tcp[rank], inproc[0]);
  EXPECT_EQ(inproc[1], inproc[0]);
}

// More than a socket takes at once, both ways, and many messages behind it.
TEST(TcpContract, LongMessagesPassShortOnesWait) {
  const auto errors = run_tcp(2, [](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto pair = world.create("pair");
    constexpr int64_t elements = 40'000'001;
    Buffer sent(DType::u8, elements);
    Buffer received(DType::u8, elements);
    sent.fill(world.rank());
    std::vector<int64_t> numbers(500);
    std::vector<int64_t> theirs(500);
    pair->exchange(rank.stream("long"),
                   {send_to(rank.next(), sent.tensor()), receive_from(rank.next(), received.tensor())});
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<int64_t>(i) * 2 + world.rank();
      pair->exchange(rank.stream("short"), {send_to(rank.next(), Tensor(&numbers[i], DType::i64, {1})),
                                            receive_from(rank.next(), Tensor(&theirs[i], DType::i64, {1}))});
    }
    rank.synchronize();
    EXPECT_EQ(difference_from(received, rank.next()), "");
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(theirs[i], static_cast<int64_t>(i) * 2 + rank.next());
  });
  EXPECT_THAT(errors, Each(std::string()));
}

TEST(TcpFailure, SizesThatDifferAreNamedOnBothSides) {
  for (const bool receiver_first : {false, true}) {
    const auto errors = run_tcp(2, [&](World& world) {
      Rank rank(world, StreamMode::queued, nullptr);
      const AbortOnUnwind guard(world);
      const auto pair = world.create("pair");
      Buffer data(DType::fp32, 8);
      if (receiver_first == (world.rank() == 0)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      pair->exchange(rank.stream("transfer"),
                     {world.rank() == 0 ? send_to(1, data.part(0, 3)) : receive_from(0, data.part(0, 5))});
      rank.synchronize();
    });
    EXPECT_THAT(errors[0],
                AllOf(HasSubstr("send of 12 bytes to rank 1 (world rank 1)"), HasSubstr("20 bytes are")));
    EXPECT_THAT(errors[1], AllOf(HasSubstr("receive of 20 bytes from rank 0 (world rank 0)"),
                                 HasSubstr("12 bytes came where 20")));
  }
}

TEST(TcpFailure, AStopReachesAllWithItsReason) {
  const auto errors = run_tcp(3, [](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto all = world.create("all");
    if (world.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      throw std::runtime_error("the disk is full");
    }
    all->barrier(rank.stream("transfer"));
    rank.synchronize();
  });
  EXPECT_EQ(errors[2], "the disk is full");
  for (const size_t rank : {0, 1}) {
    EXPECT_THAT(errors[rank], AllOf(HasSubstr("barrier"), HasSubstr("lost world rank")));
  }
  EXPECT_THAT(errors[0] + errors[1], HasSubstr("lost world rank 2: world rank 2 left with an error"));
}

TEST(TcpFailure, HostsThatAgreeHearOfItToo) {
  const auto errors = run_tcp(2, [](World& world) {
    if (world.rank() == 1) throw std::runtime_error("gone");
    world.barrier();
  });
  EXPECT_THAT(errors[0], HasSubstr("lost world rank 1"));
}

// What a message from nobody's attempt, a scanner, or a wrong size does to a start.
TEST(TcpStart, StrangersAreTurnedAwayAndOthersMeet) {
  const int port = free_port();
  std::vector<std::string> errors(5);
  const auto join = [&](size_t which, int rank, int ranks, const char* attempt) {
    return std::thread([&errors, port, which, rank, ranks, attempt] {
      try {
        const auto world =
            make_tcp_world({rank, ranks, "127.0.0.1", port, attempt}, {.start = std::chrono::seconds(20)});
        world->barrier();
      } catch (const std::exception& error) {
        errors[which] = error.what();
      }
    });
  };
  testing::internal::CaptureStderr();
  std::thread zero = join(0, 0, 2, "now");
  const Deadline soon = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  {
    const Socket scanner = Socket::connect("127.0.0.1", port, soon);
    scanner.write_line("GET / HTTP/1.1");
  }
  std::thread left_over = join(2, 1, 2, "before");
  left_over.join();
  std::thread too_many = join(3, 1, 3, "now");
  too_many.join();
  std::thread another_zero = join(4, 0, 2, "now");
  another_zero.join();
  std::thread one = join(1, 1, 2, "now");
  one.join();
  zero.join();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "");
  EXPECT_THAT(errors[2], AllOf(HasSubstr("attempt before"), HasSubstr("left over")));
  EXPECT_THAT(errors[3], AllOf(HasSubstr("told of 3 ranks"), HasSubstr("this one of 2")));
  EXPECT_THAT(errors[4], AllOf(HasSubstr("listening on TCP port"), HasSubstr("comm.port")));
  EXPECT_THAT(printed, HasSubstr("was turned away: it belongs to attempt before"));
}

TEST(TcpStart, WhoIsMissingIsNamed) {
  const int port = free_port();
  EXPECT_THAT(
      [&] {
        make_tcp_world({0, 3, "127.0.0.1", port, ""}, {.start = std::chrono::milliseconds(100)});
      },
      testing::ThrowsMessage<LaunchError>(AllOf(HasSubstr("1 of 3 ranks"), HasSubstr("missing: 1, 2"))));
  EXPECT_THAT(
      [&] {
        make_tcp_world({1, 3, "127.0.0.1", port, ""}, {.start = std::chrono::milliseconds(100)});
      },
      testing::ThrowsMessage<LaunchError>(
          AllOf(HasSubstr("rank 1 of 3 could not join"), HasSubstr("Connection refused"))));
}

}  // namespace
}  // namespace penstock::transport
