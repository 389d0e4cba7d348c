// On virtual clocks every time is known exactly, whatever the threads do: powers of two, so that == is fair.
#include <vector>

#include <gtest/gtest.h>

#include "kernels/transport/inproc/inproc_world.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

constexpr double latency = 0.25;
constexpr double bandwidth = 64;  // bytes per second

InprocOptions with_links(int ranks) {
  InprocOptions options;
  options.links = LinkModel(ranks, {latency, bandwidth});
  return options;
}

void busy(Stream& stream, double seconds) {
  stream.host_task("work", seconds, [] {});
}

class VirtualTime : public testing::TestWithParam<StreamMode> {
 protected:
  void run(const InprocOptions& options, int ranks, void (*body)(Rank&, World&)) {
    for (int repetition = 0; repetition < 5; ++repetition) {
      run_inproc(ranks, options, [&](World& world) {
        Rank rank(world, GetParam(), make_virtual_clock());
        const AbortOnUnwind guard(world);
        body(rank, world);
      });
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, VirtualTime, testing::Values(StreamMode::queued, StreamMode::shuffled));

TEST_P(VirtualTime, AMessageStartsWhenBothAreThereAndTheSenderGoesOnWhenTheLinkIsFree) {
  run(with_links(2), 2, [](Rank& rank, World& world) {
    const auto pair = world.create("pair");
    Buffer data(DType::u8, 32);  // 32/64 = 0.5 s, and 0.25 of latency
    Stream& stream = rank.stream("transfer");
    double first = 0;
    double second = 0;
    // Rank 0 is late for the first, rank 1 for the second.
    busy(stream, rank.index() == 0 ? 2.0 : 0.5);
    pair->exchange(stream, {rank.index() == 0 ? send_to(1, data.tensor()) : receive_from(0, data.tensor())});
    stream.stamp(&first);
    busy(stream, rank.index() == 0 ? 1.0 : 4.0);
    pair->exchange(stream, {rank.index() == 0 ? send_to(1, data.tensor()) : receive_from(0, data.tensor())});
    stream.stamp(&second);
    stream.synchronize();
    EXPECT_EQ(first, rank.index() == 0 ? 2.5 : 2.75);
    EXPECT_EQ(second, 2.75 + 4.0 + (rank.index() == 0 ? 0.5 : 0.75));
  });
}

TEST_P(VirtualTime, LinksAreDirectedAndTheirOwn) {
  InprocOptions options = with_links(2);
  options.links.set(1, 0, {4.0, 1.0});
  run(options, 2, [](Rank& rank, World& world) {
    const auto pair = world.create("pair", {1, 0});  // ranks in the communicator are not world ranks
    Buffer out(DType::u8, 16);
    Buffer in(DType::u8, 16);
    double sent = 0;
    double received = 0;
    const int peer = 1 - pair->rank();
    pair->exchange(rank.stream("send"), {send_to(peer, out.tensor())});
    rank.stream("send").stamp(&sent);
    pair->exchange(rank.stream("receive"), {receive_from(peer, in.tensor())});
    rank.stream("receive").stamp(&received);
    rank.synchronize();
    EXPECT_EQ(sent, world.rank() == 0 ? 0.25 : 16.0);
    EXPECT_EQ(received, world.rank() == 0 ? 20.0 : 0.5);
  });
}

TEST_P(VirtualTime, MessagesOfAGroupShareALinkOneByOneAndOtherLinksAtOnce) {
  run(with_links(3), 3, [](Rank& rank, World& world) {
    const auto all = world.create("all");
    std::vector<Buffer> data;
    for (int i = 0; i < 4; ++i) data.emplace_back(DType::u8, 48);  // 0.75 s each, and 0.25 of latency
    Stream& stream = rank.stream("transfer");
    double end = 0;
    if (rank.index() == 0) {
      all->exchange(stream, {receive_from(1, data[0].tensor()), receive_from(2, data[1].tensor()),
                             receive_from(1, data[2].tensor())});
    } else if (rank.index() == 1) {
      all->exchange(stream, {send_to(0, data[0].tensor()), send_to(0, data[1].tensor())});
    } else {
      all->exchange(stream, {send_to(0, data[0].tensor())});
    }
    stream.stamp(&end);
    stream.synchronize();
    EXPECT_EQ(end, std::vector({1.75, 1.5, 0.75})[static_cast<size_t>(rank.index())]);
  });
}

TEST_P(VirtualTime, LatencyOccupiesNoLink) {
  run(with_links(2), 2, [](Rank& rank, World& world) {
    const auto pair = world.create("pair");
    Buffer data(DType::u8, 32);  // 0.5 s, and 0.25 of latency
    Stream& stream = rank.stream("transfer");
    std::vector<double> ends(4);
    for (size_t i = 0; i < 4; ++i) {
      // Other work waits for what was received before it, and messages for it.
      if (i == 3) stream.fill_zero(data.tensor().data, 1);
      pair->exchange(stream,
                     {rank.index() == 0 ? send_to(1, data.tensor()) : receive_from(0, data.tensor())});
      stream.stamp(&ends[i]);
    }
    stream.synchronize();
    const std::vector<double> sent{0.5, 1.0, 1.5, 2.25};
    const std::vector<double> received{0.75, 1.25, 1.75, 2.5};
    EXPECT_EQ(ends, rank.index() == 0 ? sent : received);
  });
}

TEST_P(VirtualTime, ADelayCanDependOnTheMessage) {
  InprocOptions options = with_links(2);
  options.delay = [](int source, int destination, uint32_t message) {
    return source == 0 && destination == 1 && message == 1 ? 8.0 : 0.0;
  };
  run(options, 2, [](Rank& rank, World& world) {
    const auto pair = world.create("pair");
    Buffer data(DType::u8, 16);  // 0.25 s, and 0.25 of latency
    Stream& stream = rank.stream("transfer");
    std::vector<double> ends(3);
    for (double& end : ends) {
      pair->exchange(stream,
                     {rank.index() == 0 ? send_to(1, data.tensor()) : receive_from(0, data.tensor())});
      stream.stamp(&end);
    }
    stream.synchronize();
    const std::vector<double> sent{0.25, 0.5, 0.75};
    const std::vector<double> received{0.5, 8.75, 8.75};  // in order: the third is seen behind the second
    EXPECT_EQ(ends, rank.index() == 0 ? sent : received);
  });
}

TEST_P(VirtualTime, APipelineTakesFillPlusWork) {
  // P ranks pass M micro-batches down; F = 1 s, transfers hidden but for the fill: (M + P − 1) F + (P − 1) c.
  run(with_links(4), 4, [](Rank& rank, World& world) {
    constexpr int micro_batches = 6;
    const auto line = world.create("pipeline");
    Stream& compute = rank.stream("compute");
    Stream& send = rank.stream("send");
    Stream& receive = rank.stream("receive");
    std::vector<Buffer> data;
    for (int i = 0; i < 2; ++i) data.emplace_back(DType::u8, 16);  // c = 0.5 s
    const auto computed = rank.device().create_event("computed");
    const auto received = rank.device().create_event("received");
    for (int i = 0; i < micro_batches; ++i) {
      if (rank.index() > 0) {
        line->exchange(receive, {receive_from(rank.index() - 1, data[0].tensor())});
        receive.record(*received);
        compute.wait(*received);
      }
      busy(compute, 1.0);
      compute.record(*computed);
      if (rank.index() < 3) {
        send.wait(*computed);
        line->exchange(send, {send_to(rank.index() + 1, data[1].tensor())});
      }
    }
    double end = 0;
    compute.stamp(&end);
    rank.synchronize();
    EXPECT_EQ(end, micro_batches + rank.index() * 1.5);
  });
}

TEST_P(VirtualTime, CollectivesStartWithTheLastRankAndTakeTheirFormula) {
  InprocOptions options = with_links(4);
  options.links.set(2, 3, {0.5, bandwidth});  // the slowest edge of the ring
  run(options, 4, [](Rank& rank, World& world) {
    const auto all = world.create("all");
    Buffer whole(DType::u8, 64);
    Buffer values(DType::fp32, 16);
    Buffer block(DType::fp32, 4);
    Stream& stream = rank.stream("reduce");
    std::vector<double> ends(5);
    busy(stream, 1.0 + rank.index());
    all->all_reduce(stream, values.fill(1).tensor(), Reduction::sum);
    stream.stamp(&ends[0]);
    all->reduce_scatter(stream, values.tensor(), block.tensor(), Reduction::sum);
    stream.stamp(&ends[1]);
    all->all_gather(stream, block.tensor(), values.tensor());
    stream.stamp(&ends[2]);
    all->broadcast(stream, whole.tensor(), 3);
    stream.stamp(&ends[3]);
    all->barrier(stream);
    stream.stamp(&ends[4]);
    stream.synchronize();
    // 64 bytes are 1 s of the link; 4 ranks; latency 0.5.
    const std::vector<double> expected{4.0 + 6 * 0.75, 8.5 + 3 * 0.75, 10.75 + 3 * 0.75, 13.0 + 1.5 + 1.0,
                                       15.5 + 6 * 0.5};
    EXPECT_EQ(ends, expected);
  });
}

TEST_P(VirtualTime, FreeLinksTakeNoTime) {
  run({}, 2, [](Rank& rank, World& world) {
    const auto pair = world.create("pair");
    Buffer data(DType::u8, 1000);
    double end = -1;
    Stream& stream = rank.stream("transfer");
    busy(stream, 1.0 + rank.index());
    pair->broadcast(stream, data.tensor(), 0);
    pair->exchange(stream, {rank.index() == 0 ? send_to(1, data.tensor()) : receive_from(0, data.tensor())});
    stream.stamp(&end);
    stream.synchronize();
    EXPECT_EQ(end, 2.0);
  });
}

}  // namespace
}  // namespace penstock::transport
