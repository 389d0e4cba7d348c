#include <latch>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>

#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Call>
std::string device_error(Call call) {
  try {
    call();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "nothing thrown";
}

void enqueue_failure(Stream& stream, const char* name = "gemm", const char* what = "K is 0") {
  enqueue(stream, name, [what] { throw std::runtime_error(what); });
}

TEST(Failure, SurfacesOnceAtSynchronizeWithItsNames) {
  for (const StreamMode mode : queued_modes()) {
    const auto device = make_device(mode, 5);
    const auto stream = device->create_stream("compute", StreamUse::compute);
    std::latch gate(1);
    bool dropped_ran = false;
    double seconds = -1;
    enqueue(*stream, "gate", [&gate] { gate.wait(); });
    enqueue_failure(*stream);
    enqueue_failure(*stream, "norm", "a later error");
    stream->stamp(&seconds);  // not dropped, so not counted
    enqueue(*stream, "dropped", [&dropped_ran] { dropped_ran = true; });
    gate.count_down();
    EXPECT_THAT(device_error([&] { stream->synchronize(); }),
                AllOf(HasSubstr("rank 5"), HasSubstr("stream \"compute\""), HasSubstr("task \"gemm\""),
                      HasSubstr("K is 0"), HasSubstr("2 tasks queued behind it were dropped")));
    EXPECT_FALSE(dropped_ran);
    EXPECT_GE(seconds, 0.0);
    EXPECT_NO_THROW(stream->synchronize());
    enqueue_failure(*stream, "attention", "another error");
    EXPECT_THAT(device_error([&] { stream->synchronize(); }),
                AllOf(HasSubstr("\"attention\""), HasSubstr("(0 tasks queued behind it were dropped)")));
  }
}

TEST(Failure, SurfacesAtTheNextEnqueueWhichQueuesNothing) {
  const auto device = make_device(StreamMode::queued, 1);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const auto failed = device->create_event("failed");
  bool ran = false;
  std::latch gate(1);
  enqueue(*stream, "gate", [&gate] { gate.wait(); });
  enqueue_failure(*stream);
  stream->record(*failed);
  gate.count_down();
  failed->synchronize();
  EXPECT_THAT(
      device_error([&] { enqueue(*stream, "next", [&ran] { ran = true; }); }),
      AllOf(HasSubstr("rank 1"), HasSubstr("\"compute\""), HasSubstr("\"gemm\""), HasSubstr("K is 0")));
  stream->synchronize();
  EXPECT_FALSE(ran);
}

TEST(Failure, EveryKindOfCallSurfacesIt) {
  const auto device = make_device(StreamMode::queued);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const auto event = device->create_event("event");
  const auto done = device->create_event("done");
  const auto signal = device->create_signal("signal");
  double seconds = -1;
  int word = 1;
  const std::vector<std::function<void()>> calls{
      [&] { stream->record(*event); },
      [&] { stream->wait(*event); },
      [&] { stream->signal(*signal, 1); },
      [&] { stream->wait(*signal, 1); },
      [&] { stream->copy(&word, &word, 0); },
      [&] { stream->fill_zero(&word, sizeof(word)); },
      [&] { stream->host_task("task", 0.0, [&word] { word = 2; }); },
      [&] { stream->stamp(&seconds); },
      [&] { stream->synchronize(); },
  };
  for (const auto& call : calls) {
    std::latch gate(1);
    enqueue(*stream, "gate", [&gate] { gate.wait(); });
    enqueue_failure(*stream);
    stream->record(*done);
    gate.count_down();
    done->synchronize();
    EXPECT_THAT(device_error(call), HasSubstr("\"gemm\""));
    EXPECT_EQ(device_error([&] { stream->synchronize(); }), "nothing thrown");
  }
  EXPECT_EQ(signal->value(), 0u);
  EXPECT_EQ(seconds, -1.0);
  EXPECT_EQ(word, 1);
  stream->signal(*signal, 1);  // the refused write left no promise behind
  stream->synchronize();
  EXPECT_EQ(signal->value(), 1u);
}

TEST(Failure, TheStreamIsUsableAfterwards) {
  const auto device = make_device(StreamMode::queued);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  for (int round = 0; round < 20; ++round) {
    int value = 0;
    enqueue_failure(*stream);
    EXPECT_THAT(device_error([&] { stream->synchronize(); }),
                HasSubstr("(0 tasks queued behind it were dropped)"));
    enqueue(*stream, "set", [&value] { value = 1; });
    stream->synchronize();
    EXPECT_EQ(value, 1);
  }
}

TEST(Failure, AnExceptionOfAnyTypeIsCaught) {
  const auto device = make_device(StreamMode::queued);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  stream->host_task("odd", 0.0, [] { throw 3; });
  EXPECT_THAT(device_error([&] { stream->synchronize(); }),
              AllOf(HasSubstr("\"odd\""), HasSubstr("no std::exception")));
}

TEST(Failure, DestructionPrintsWhatNeverSurfaced) {
  const auto device = make_device(StreamMode::queued, 7);
  ::testing::internal::CaptureStderr();
  {
    const auto stream = device->create_stream("compute", StreamUse::compute);
    enqueue_failure(*stream);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), AllOf(HasSubstr("rank 7"), HasSubstr("\"compute\""),
                                                              HasSubstr("\"gemm\""), HasSubstr("K is 0")));
}

TEST(Failure, TasksDroppedAreDestroyed) {
  const auto device = make_device(StreamMode::queued);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const auto token = std::make_shared<int>(1);
  std::latch gate(1);
  enqueue(*stream, "gate", [&gate] { gate.wait(); });
  enqueue_failure(*stream);
  for (int i = 0; i < 10; ++i) enqueue(*stream, "hold", [token] {});
  EXPECT_GT(token.use_count(), 1);
  gate.count_down();
  EXPECT_THROW(stream->synchronize(), DeviceError);
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace penstock::testing
