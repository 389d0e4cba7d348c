// What only threads of one process can show: who waits for whom, and which bits a sum has.
#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/device/bfloat16.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

TEST(Rendezvous, ASendCompletesOnlyOnceItsReceiveRuns) {
  std::latch looked(1);
  run_inproc(2, {}, [&](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto pair = world.create("pair");
    Buffer data(DType::fp32, 100);
    const auto passed = rank.device().create_event("passed");
    Stream& stream = rank.stream("transfer");
    if (rank.index() == 0) {
      pair->exchange(stream, {send_to(1, data.fill(3).tensor())});
      stream.record(*passed);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_FALSE(passed->query()) << "nothing was there to receive it";
      looked.count_down();
    } else {
      looked.wait();
      pair->exchange(stream, {receive_from(0, data.tensor())});
    }
    stream.synchronize();
    EXPECT_EQ(difference_from(data, 3), "");
  });
}

TEST(Rendezvous, ABufferedSendDoesNotWait) {
  std::latch sent(1);
  InprocOptions options;
  options.buffered = true;
  run_inproc(2, options, [&](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto pair = world.create("pair");
    Buffer data(DType::fp32, 100);
    Stream& stream = rank.stream("transfer");
    if (rank.index() == 0) {
      pair->exchange(stream, {send_to(1, data.fill(3).tensor())});
      stream.synchronize();
      data.fill(4);
      sent.count_down();
    } else {
      sent.wait();
      pair->exchange(stream, {receive_from(0, data.tensor())});
      stream.synchronize();
      EXPECT_EQ(difference_from(data, 3), "");
    }
  });
}

TEST(Rendezvous, AGroupServesWhoIsThereFirst) {
  // Rank 1 comes to the group only after rank 2 has been served by it.
  run_inproc(3, {}, [&](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto all = world.create("all");
    Buffer a(DType::fp32, 10);
    Buffer b(DType::fp32, 10);
    Stream& stream = rank.stream("transfer");
    if (rank.index() == 0) {
      all->exchange(stream, {receive_from(1, a.tensor()), receive_from(2, b.tensor())});
      stream.synchronize();
      EXPECT_EQ(difference_from(a, 1), "");
      EXPECT_EQ(difference_from(b, 2), "");
    } else if (rank.index() == 2) {
      all->exchange(stream, {send_to(0, b.fill(2).tensor())});
      all->exchange(stream, {send_to(1, b.tensor())});
    } else {
      all->exchange(stream, {receive_from(2, b.tensor())});
      all->exchange(stream, {send_to(0, a.fill(1).tensor())});
    }
    stream.synchronize();
  });
}

TEST(Rendezvous, GroupsLargerThanWhatIsHeldInPlace) {
  run_inproc(2, {}, [&](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto pair = world.create("pair");
    std::vector<Buffer> sent;
    std::vector<Buffer> received;
    std::vector<Message> group;
    for (int i = 0; i < 40; ++i) {
      sent.emplace_back(DType::u8, 5 + i).fill(rank.index() + i);
      received.emplace_back(DType::u8, 5 + i);
      group.push_back(receive_from(rank.next(), received.back().tensor()));
      group.push_back(send_to(rank.next(), sent.back().tensor()));
    }
    pair->exchange(rank.stream("transfer"), group);
    rank.synchronize();
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(difference_from(received[static_cast<size_t>(i)], rank.next() + i), "") << i;
  });
}

TEST(Barrier, NobodyPassesBeforeAllHaveCome) {
  std::atomic<int> came{0};
  run_inproc(4, {}, [&](World& world) {
    Rank rank(world, StreamMode::shuffled, nullptr);
    const AbortOnUnwind guard(world);
    const auto all = world.create("all");
    Stream& stream = rank.stream("transfer");
    for (int round = 1; round <= 30; ++round) {
      int seen = 0;
      stream.host_task("come", 0.0, [&] { ++came; });
      all->barrier(stream);
      stream.host_task("look", 0.0, [&] { seen = came.load(); });
      all->barrier(stream);
      stream.synchronize();
      EXPECT_EQ(seen, 4 * round);
    }
  });
}

TEST(Sums, AreTakenInRankOrder) {
  // (1e8 + 1) − 1e8 is 0 in fp32, every other order gives 1; in bf16 the fp32 sum is rounded once.
  constexpr std::array<float, 3> terms{1e8f, 1.0f, -1e8f};
  constexpr std::array<float, 3> small{256.0f, 1.0f, 1.0f};
  run_inproc(3, {}, [&](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto all = world.create("all", {2, 0, 1});
    Stream& stream = rank.stream("reduce");
    std::vector<float> values(1001, terms[static_cast<size_t>(all->rank())]);
    std::vector<bfloat16> halves(1001, bfloat16(small[static_cast<size_t>(all->rank())]));
    all->all_reduce(stream, Tensor(values.data(), DType::fp32, {1001}), Reduction::sum);
    all->all_reduce(stream, Tensor(halves.data(), DType::bf16, {1001}), Reduction::sum);
    stream.synchronize();
    EXPECT_EQ(values, std::vector<float>(1001, 0.0f));
    for (const bfloat16 half : halves) EXPECT_EQ(static_cast<float>(half), 258.0f);
  });
}

TEST(Sums, OfIntegersWrap) {
  run_inproc(2, {}, [&](World& world) {
    Rank rank(world, StreamMode::inline_now, nullptr);
    const auto all = world.create("all");
    std::array<int32_t, 1> value{rank.index() == 0 ? INT32_MAX : 2};
    all->all_reduce(rank.stream("reduce"), Tensor(value.data(), DType::i32, {1}), Reduction::sum);
    EXPECT_EQ(value[0], INT32_MIN + 1);
  });
}

TEST(Links, HoldMessagesBackOnARealClock) {
  constexpr double latency = 0.02;
  InprocOptions options;
  options.links = LinkModel(2, {latency});
  run_inproc(2, options, [&](World& world) {
    Rank rank(world, StreamMode::queued, nullptr);
    const AbortOnUnwind guard(world);
    const auto pair = world.create("pair");
    Buffer out(DType::fp32, 10);
    Buffer in(DType::fp32, 10);
    Stream& stream = rank.stream("transfer");
    double before = 0;
    double after = 0;
    stream.stamp(&before);
    pair->exchange(stream, {send_to(rank.next(), out.fill(rank.index()).tensor()),
                            receive_from(rank.next(), in.tensor())});
    stream.stamp(&after);
    stream.synchronize();
    EXPECT_EQ(difference_from(in, rank.next()), "");
    EXPECT_GE(after - before, latency);
  });
}

}  // namespace
}  // namespace penstock::transport
