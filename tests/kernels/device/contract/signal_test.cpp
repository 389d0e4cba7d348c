#include "kernels/device/signal.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SignalModes : public EveryMode {};
PENSTOCK_EVERY_MODE(SignalModes);

TEST_P(SignalModes, WrittenThenWaitedFor) {
  const auto writer = device_->create_stream("writer", StreamUse::compute);
  const auto reader = device_->create_stream("reader", StreamUse::compute);
  const auto signal = device_->create_signal("sent");
  EXPECT_EQ(signal->value(), 0u);
  reader->wait(*signal, 0);
  int value = 0;
  int seen = 0;
  enqueue(*writer, "set", [&value] { value = 4; });
  writer->signal(*signal, 3);
  reader->wait(*signal, 2);
  enqueue(*reader, "read", [&] { seen = value; });
  reader->synchronize();
  writer->synchronize();
  EXPECT_EQ(seen, 4);
  EXPECT_EQ(signal->value(), 3u);
}

TEST_P(SignalModes, ValuesMustRise) {
  const auto stream = device_->create_stream("writer", StreamUse::compute);
  const auto signal = device_->create_signal("micro-batches sent");
  stream->signal(*signal, 5);
  for (const uint64_t value : {5u, 4u, 0u}) {
    try {
      stream->signal(*signal, value);
      FAIL() << value << " after 5 was accepted";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("\"micro-batches sent\""), HasSubstr(std::to_string(value)),
                                      HasSubstr("5")));
    }
  }
  stream->signal(*signal, 6);
  stream->synchronize();
  EXPECT_EQ(signal->value(), 6u);
}

TEST(Signals, MayBeWaitedForBeforeItIsWritten) {
  for (const StreamMode mode : queued_modes()) {
    const auto device = make_device(mode);
    const auto writer = device->create_stream("writer", StreamUse::compute);
    const auto reader = device->create_stream("reader", StreamUse::compute);
    const auto signal = device->create_signal("sent");
    std::vector<int> sent(100);
    std::vector<int> received(100);
    for (size_t i = 0; i < sent.size(); ++i) {
      reader->wait(*signal, i + 1);
      enqueue(*reader, "receive", [&, i] { received[i] = sent[i]; });
    }
    for (size_t i = 0; i < sent.size(); ++i) {
      enqueue(*writer, "send", [&sent, i] { sent[i] = static_cast<int>(i) + 1; });
      writer->signal(*signal, i + 1);
    }
    reader->synchronize();
    for (size_t i = 0; i < received.size(); ++i) ASSERT_EQ(received[i], static_cast<int>(i) + 1);
  }
}

TEST(Signals, ReleaseEndsEveryWait) {
  const auto device = make_device(StreamMode::queued);
  const auto first = device->create_stream("first", StreamUse::compute);
  const auto second = device->create_stream("second", StreamUse::compute);
  const auto signal = device->create_signal("never written");
  const auto done = device->create_event("done");
  first->wait(*signal, 1000);
  first->record(*done);
  EXPECT_FALSE(done->query());
  signal->release();
  first->synchronize();
  second->wait(*signal, 2000);
  second->synchronize();
  EXPECT_TRUE(done->query());
}

TEST(Signals, TwoRanksOfOneProcessExchange) {
  // Each rank's host thread queues on its own device; the buffers are plain memory ordered by the signals
  // alone.
  for (const StreamMode mode : queued_modes()) {
    constexpr uint64_t rounds = 300;
    const auto left = make_device(mode, 0);
    const auto right = make_device(mode, 1);
    const auto full = left->create_signal("full");
    const auto free = right->create_signal("free");
    const auto send = left->create_stream("send", StreamUse::transfer);
    const auto receive = right->create_stream("receive", StreamUse::transfer);
    uint64_t buffer = 0;
    uint64_t sum = 0;
    std::thread host([&] {
      for (uint64_t i = 1; i <= rounds; ++i) {
        receive->wait(*full, i);
        enqueue(*receive, "take", [&] { sum += buffer; });
        receive->signal(*free, i);
      }
      receive->synchronize();
    });
    for (uint64_t i = 1; i <= rounds; ++i) {
      send->wait(*free, i - 1);
      enqueue(*send, "put", [&buffer, i] { buffer = i * i; });
      send->signal(*full, i);
    }
    send->synchronize();
    host.join();
    EXPECT_EQ(sum, rounds * (rounds + 1) * (2 * rounds + 1) / 6);
  }
}

}  // namespace
}  // namespace penstock::testing
