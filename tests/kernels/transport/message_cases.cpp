#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

constexpr std::array every_dtype{DType::fp32, DType::bf16, DType::fp16, DType::fp64,
                                 DType::i32,  DType::i64,  DType::u8};

void every_dtype_and_size_round_a_ring(Rank& rank) {
  const auto ring = rank.world().create("ring");
  Stream& stream = rank.stream("transfer");
  for (const DType dtype : every_dtype) {
    for (const int64_t elements : {0, 1, 3, 17, 1000, 4097, 70001}) {
      Buffer sent(dtype, elements);
      Buffer received(dtype, elements);
      sent.fill(rank.index());
      ring->exchange(stream,
                     {send_to(rank.next(), sent.tensor()), receive_from(rank.previous(), received.tensor())});
      stream.synchronize();
      EXPECT_EQ(difference_from(received, rank.previous()), "") << name_of(dtype) << ", " << elements;
      EXPECT_EQ(difference_from(sent, rank.index()), "") << name_of(dtype) << ", " << elements;
    }
  }
}

void long_messages_arrive_whole(Rank& rank) {
  const auto ring = rank.world().create("ring");
  Stream& stream = rank.stream("transfer");
  Buffer sent(DType::u8, 1024 * 1024 + 5);
  Buffer received(DType::u8, sent.elements());
  sent.fill(rank.index());
  ring->exchange(stream,
                 {receive_from(rank.previous(), received.tensor()), send_to(rank.next(), sent.tensor())});
  stream.synchronize();
  EXPECT_EQ(difference_from(received, rank.previous()), "");
}

void groups_complete_in_any_order(Rank& rank) {
  // Every rank sends every rank, itself too, a few messages of different sizes. Each shuffles its group,
  // keeping the order of the messages to one peer and of those from one peer.
  constexpr int messages = 3;
  const auto all = rank.world().create("all");
  Stream& stream = rank.stream("transfer");
  std::mt19937 random(static_cast<unsigned>(rank.index()) + 1);
  const auto length = [](int from, int to, int message) { return 100 * message + 7 * from + to; };
  for (int round = 0; round < 5; ++round) {
    std::vector<Buffer> sent;
    std::vector<Buffer> received;
    std::vector<int> slots;  // 2 * peer + direction
    for (int peer = 0; peer < rank.size(); ++peer) {
      for (int message = 0; message < messages; ++message) {
        sent.emplace_back(DType::i32, length(rank.index(), peer, message))
            .fill(rank.index() + message + round);
        received.emplace_back(DType::i32, length(peer, rank.index(), message));
        slots.push_back(2 * peer);
        slots.push_back(2 * peer + 1);
      }
    }
    std::shuffle(slots.begin(), slots.end(), random);
    std::vector<int> used(static_cast<size_t>(2 * rank.size()), 0);
    std::vector<Message> group;
    for (const int slot : slots) {
      const int peer = slot / 2;
      const auto place = static_cast<size_t>(peer * messages + used[static_cast<size_t>(slot)]++);
      group.push_back(slot % 2 == 0 ? send_to(peer, sent[place].tensor())
                                    : receive_from(peer, received[place].tensor()));
    }
    all->exchange(stream, group);
    stream.synchronize();
    for (int peer = 0; peer < rank.size(); ++peer) {
      for (int message = 0; message < messages; ++message) {
        EXPECT_EQ(
            difference_from(received[static_cast<size_t>(peer * messages + message)], peer + message + round),
            "")
            << "message " << message << " from " << peer << ", round " << round;
      }
    }
  }
}

void many_messages_are_in_flight(Rank& rank) {
  // One stream only sends, one only receives: a rank's sends run far ahead of what it received.
  constexpr int messages = 200;
  const auto ring = rank.world().create("ring");
  std::vector<Buffer> sent;
  std::vector<Buffer> received;
  for (int i = 0; i < messages; ++i) {
    sent.emplace_back(DType::fp32, 1 + i * 13).fill(rank.index() + i);
    received.emplace_back(DType::fp32, 1 + i * 13);
  }
  for (const Buffer& buffer : sent)
    ring->exchange(rank.stream("send"), {send_to(rank.next(), buffer.tensor())});
  for (const Buffer& buffer : received)
    ring->exchange(rank.stream("receive"), {receive_from(rank.previous(), buffer.tensor())});
  rank.synchronize();
  for (int i = 0; i < messages; ++i)
    EXPECT_EQ(difference_from(received[static_cast<size_t>(i)], rank.previous() + i), "") << "message " << i;
}

void messages_match_in_the_order_of_enqueueing(Rank& rank) {
  // Alternating streams: which stream gets to run first does not decide which message is which.
  constexpr int messages = 40;
  const auto ring = rank.world().create("ring");
  std::vector<Buffer> sent;
  std::vector<Buffer> received;
  for (int i = 0; i < messages; ++i) {
    sent.emplace_back(DType::i64, 50).fill(rank.index() + i);
    received.emplace_back(DType::i64, 50);
  }
  for (int i = 0; i < messages; ++i) {
    const auto place = static_cast<size_t>(i);
    ring->exchange(rank.stream(i % 2 == 0 ? "send a" : "send b"),
                   {send_to(rank.next(), sent[place].tensor())});
    ring->exchange(rank.stream(i % 3 == 0 ? "receive a" : "receive b"),
                   {receive_from(rank.previous(), received[place].tensor())});
  }
  rank.synchronize();
  for (int i = 0; i < messages; ++i)
    EXPECT_EQ(difference_from(received[static_cast<size_t>(i)], rank.previous() + i), "") << "message " << i;
}

void streams_may_share_one_order(Rank& rank) {
  // The same, but in an order in which a rank may do one thing after another: rank 0 receives first.
  constexpr int messages = 40;
  const auto ring = rank.world().create("ring");
  std::vector<Buffer> sent;
  std::vector<Buffer> received;
  for (int i = 0; i < messages; ++i) {
    sent.emplace_back(DType::i64, 50).fill(rank.index() + i);
    received.emplace_back(DType::i64, 50);
  }
  for (int i = 0; i < messages; ++i) {
    const auto place = static_cast<size_t>(i);
    Stream& sender = rank.stream(i % 2 == 0 ? "send a" : "send b");
    Stream& receiver = rank.stream(i % 3 == 0 ? "receive a" : "receive b");
    const Message out = send_to(rank.next(), sent[place].tensor());
    const Message in = receive_from(rank.previous(), received[place].tensor());
    if (rank.size() == 1) {
      ring->exchange(sender, {out, in});
    } else if (rank.index() == 0) {
      ring->exchange(receiver, {in});
      ring->exchange(sender, {out});
    } else {
      ring->exchange(sender, {out});
      ring->exchange(receiver, {in});
    }
  }
  rank.synchronize();
  for (int i = 0; i < messages; ++i)
    EXPECT_EQ(difference_from(received[static_cast<size_t>(i)], rank.previous() + i), "") << "message " << i;
}

void late_peers_are_waited_for(Rank& rank) {
  const auto ring = rank.world().create("ring");
  Stream& stream = rank.stream("transfer");
  for (const int64_t elements : {5, 100000}) {
    Buffer sent(DType::fp32, elements);
    Buffer received(DType::fp32, elements);
    sent.fill(rank.index());
    if (rank.index() == rank.size() - 1) std::this_thread::sleep_for(rank.lateness());
    ring->exchange(stream,
                   {send_to(rank.next(), sent.tensor()), receive_from(rank.previous(), received.tensor())});
    ring->barrier(stream);
    stream.synchronize();
    EXPECT_EQ(difference_from(received, rank.previous()), "");
  }
}

void a_sent_tensor_may_be_overwritten_once_the_stream_passed(Rank& rank) {
  const auto ring = rank.world().create("ring");
  for (const int64_t elements : {1, 900, 30000}) {
    Buffer sent(DType::fp64, elements);
    std::vector<Buffer> received;
    for (int i = 0; i < 3; ++i) received.emplace_back(DType::fp64, elements);
    sent.fill(rank.index());
    Stream& stream = rank.stream("send");
    ring->exchange(stream, {send_to(rank.next(), sent.tensor())});
    stream.host_task("fill again", 0.0, [&] { sent.fill(rank.index() + 1); });
    ring->exchange(stream, {send_to(rank.next(), sent.tensor())});
    stream.host_task("and again", 0.0, [&] { sent.fill(rank.index() + 2); });
    ring->exchange(stream, {send_to(rank.next(), sent.tensor())});
    stream.fill_zero(sent.tensor().data, sent.tensor().bytes());
    if (rank.index() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const Buffer& buffer : received)
      ring->exchange(rank.stream("receive"), {receive_from(rank.previous(), buffer.tensor())});
    rank.synchronize();
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(difference_from(received[static_cast<size_t>(i)], rank.previous() + i), "")
          << "message " << i;
  }
}

void events_order_transfers_and_work(Rank& rank) {
  // What is received is sent on, changed, round and round: compute, receive and send streams joined by
  // events.
  constexpr int rounds = 6;
  const auto ring = rank.world().create("ring");
  const auto computed = rank.device().create_event("computed");
  const auto received = rank.device().create_event("received");
  const auto sent = rank.device().create_event("sent");
  Buffer out(DType::i32, 3000);
  Buffer in(DType::i32, 3000);
  Stream& compute = rank.stream("compute");
  Stream& send = rank.stream("send");
  Stream& receive = rank.stream("receive");
  compute.host_task("start", 0.0, [&] { out.fill(rank.index()); });
  compute.record(*computed);
  for (int round = 0; round < rounds; ++round) {
    send.wait(*computed);
    ring->exchange(send, {send_to(rank.next(), out.tensor())});
    send.record(*sent);
    if (round > 0) receive.wait(*computed);
    ring->exchange(receive, {receive_from(rank.previous(), in.tensor())});
    receive.record(*received);
    compute.wait(*received);
    compute.wait(*sent);
    compute.host_task("add one", 0.0, [&] {
      for (int64_t i = 0; i < in.elements(); ++i) out.set(i, in.get(i) + 1);
    });
    compute.record(*computed);
  }
  rank.synchronize();
  const int origin = (rank.index() + rounds * (rank.size() - 1)) % rank.size();
  EXPECT_EQ(difference(out, [&](int64_t i) { return Buffer::pattern(origin, i) + rounds; }), "");
}

constexpr std::array cases{
    ContractCase{"EveryDtypeAndSizeRoundARing", false, every_dtype_and_size_round_a_ring},
    ContractCase{"LongMessagesArriveWhole", false, long_messages_arrive_whole},
    ContractCase{"GroupsCompleteInAnyOrder", false, groups_complete_in_any_order},
    ContractCase{"ManyMessagesAreInFlight", true, many_messages_are_in_flight},
    ContractCase{"MessagesMatchInTheOrderOfEnqueueing", true, messages_match_in_the_order_of_enqueueing},
    ContractCase{"StreamsMayShareOneOrder", false, streams_may_share_one_order},
    ContractCase{"LatePeersAreWaitedFor", false, late_peers_are_waited_for},
    ContractCase{"ASentTensorMayBeOverwrittenOnceTheStreamPassed", true,
                 a_sent_tensor_may_be_overwritten_once_the_stream_passed},
    ContractCase{"EventsOrderTransfersAndWork", true, events_order_transfers_and_work},
};

}  // namespace

std::span<const ContractCase> message_cases() {
  return cases;
}

}  // namespace penstock::transport
