#include "kernels/device/event.h"

#include <vector>

#include <gmock/gmock.h>

#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EventModes : public EveryMode {};
PENSTOCK_EVERY_MODE(EventModes);

TEST_P(EventModes, AWaitOrdersTwoStreams) {
  const auto producer = device_->create_stream("producer", StreamUse::compute);
  const auto consumer = device_->create_stream("consumer", StreamUse::transfer);
  const auto ready = device_->create_event("ready");
  std::vector<int> produced(200);
  std::vector<int> consumed(200);
  for (size_t i = 0; i < produced.size(); ++i) {
    enqueue(*producer, "produce", [&, i] { produced[i] = static_cast<int>(i) + 1; });
    producer->record(*ready);
    consumer->wait(*ready);
    enqueue(*consumer, "consume", [&, i] { consumed[i] = produced[i]; });
  }
  consumer->synchronize();
  for (size_t i = 0; i < consumed.size(); ++i) ASSERT_EQ(consumed[i], static_cast<int>(i) + 1);
}

TEST_P(EventModes, NeverRecordedCountsAsComplete) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  const auto event = device_->create_event("never");
  bool ran = false;
  EXPECT_TRUE(event->query());
  event->synchronize();
  stream->wait(*event);
  enqueue(*stream, "after", [&ran] { ran = true; });
  stream->synchronize();
  EXPECT_TRUE(ran);
  EXPECT_THROW(static_cast<void>(event->seconds()), UsageError);
}

TEST_P(EventModes, StrictEventsRefuseAWaitBeforeTheRecord) {
  DeviceOptions options;
  options.rank = 2;
  options.mode = GetParam();
  options.strict_events = true;
  const auto device = make_device(options);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const auto event = device->create_event("activations arrived");
  try {
    stream->wait(*event);
    FAIL() << "the wait was accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("rank 2"), HasSubstr("\"compute\""), HasSubstr("\"activations arrived\"")));
  }
  stream->record(*event);
  stream->wait(*event);
  stream->synchronize();
  EXPECT_TRUE(event->query());
}

TEST_P(EventModes, SynchronizeSeesTheCapturedWork) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  const auto event = device_->create_event("done");
  for (int round = 1; round <= 50; ++round) {
    int value = 0;
    enqueue(*stream, "set", [&value, round] { value = round; });
    stream->record(*event);
    event->synchronize();
    EXPECT_TRUE(event->query());
    EXPECT_EQ(value, round);
    EXPECT_GE(event->seconds(), 0.0);
  }
}

TEST_P(EventModes, DestroyedWithWorkPending) {
  const auto producer = device_->create_stream("producer", StreamUse::compute);
  const auto consumer = device_->create_stream("consumer", StreamUse::compute);
  std::vector<int> produced(300);
  int sum = 0;
  for (size_t i = 0; i < produced.size(); ++i) {
    const auto event = device_->create_event("short-lived");
    enqueue(*producer, "produce", [&produced, i] { produced[i] = 1; });
    producer->record(*event);
    consumer->wait(*event);
    enqueue(*consumer, "consume", [&produced, &sum, i] { sum += produced[i]; });
  }
  consumer->synchronize();
  EXPECT_EQ(sum, 300);
}

/// Streams of which the first is held at a gate until open().
class GatedEvents : public ::testing::Test {
 protected:
  void SetUp() override { first_->wait(*gate_, 1); }
  void open() { opener_->signal(*gate_, 1); }

  std::unique_ptr<Device> device_ = make_device(StreamMode::queued);
  std::unique_ptr<Signal> gate_ = device_->create_signal("gate");
  std::unique_ptr<Stream> opener_ = device_->create_stream("opener", StreamUse::transfer);
  std::unique_ptr<Stream> first_ = device_->create_stream("first", StreamUse::compute);
  std::unique_ptr<Stream> second_ = device_->create_stream("second", StreamUse::compute);
  std::unique_ptr<Stream> third_ = device_->create_stream("third", StreamUse::compute);
  std::unique_ptr<Event> event_ = device_->create_event("event");
};

TEST_F(GatedEvents, IncompleteUntilTheCapturedWorkIsDone) {
  first_->record(*event_);
  EXPECT_FALSE(event_->query());
  EXPECT_THROW(static_cast<void>(event_->seconds()), UsageError);
  open();
  event_->synchronize();
  EXPECT_TRUE(event_->query());
}

TEST_F(GatedEvents, AnEarlierWaitKeepsWhatItCaptured) {
  int value = 0;
  enqueue(*first_, "set", [&value] { value = 1; });
  first_->record(*event_);
  second_->wait(*event_);  // captures the first stream's record, which the gate holds
  int seen = 0;
  enqueue(*second_, "read", [&] { seen = value; });
  const auto after = device_->create_event("after");
  second_->record(*after);

  third_->record(*event_);  // replaces what the event captured; the third stream is idle
  event_->synchronize();
  EXPECT_FALSE(after->query()) << "the wait queued before the second record must still wait for the first";
  open();
  after->synchronize();
  EXPECT_EQ(seen, 1);
}

TEST_F(GatedEvents, ALaterWaitTakesTheLatestRecord) {
  first_->record(*event_);
  third_->record(*event_);
  second_->wait(*event_);
  bool ran = false;
  enqueue(*second_, "after", [&ran] { ran = true; });
  second_->synchronize();  // hangs here if the wait took the first stream's record
  EXPECT_TRUE(ran);
  open();
}

TEST_F(GatedEvents, AWaitBeforeTheRecordWaitsForNothing) {
  second_->wait(*event_);
  first_->record(*event_);
  second_->synchronize();  // hangs here if the wait saw the later record
  EXPECT_FALSE(event_->query());
  open();
}

}  // namespace
}  // namespace penstock::testing
