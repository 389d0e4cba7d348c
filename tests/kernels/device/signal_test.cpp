#include "kernels/device/signal.h"

#include <latch>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "kernels/cpu/stream.h"
#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CpuSignal, InlineWaitBeforeTheWriteNamesTheSignal) {
  const auto device = make_device(StreamMode::inline_now, 6);
  const auto stream = device->create_stream("receive", StreamUse::transfer);
  const auto signal = device->create_signal("boundary 3 full");
  stream->signal(*signal, 1);
  try {
    stream->wait(*signal, 2);
    FAIL() << "the wait was accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("rank 6"), HasSubstr("\"receive\""), HasSubstr("\"boundary 3 full\""),
                      HasSubstr("reach 2"), HasSubstr("stands at 1")));
  }
  stream->signal(*signal, 2);
  stream->wait(*signal, 2);
}

TEST(CpuSignal, WritesThatNothingOrdersAreFound) {
  const auto device = make_device(StreamMode::queued);
  const auto first = device->create_stream("first", StreamUse::compute);
  const auto second = device->create_stream("second", StreamUse::compute);
  const auto signal = device->create_signal("shared");
  std::latch gate(1);
  cpu::CpuStream::of(*first).enqueue("gate", [&gate] { gate.wait(); });
  first->signal(*signal, 1);
  second->signal(*signal, 2);
  second->synchronize();
  gate.count_down();
  try {
    first->synchronize();
    FAIL() << "the late write was accepted";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("\"first\""), HasSubstr("\"shared\""), HasSubstr("stood at 2")));
  }
  EXPECT_EQ(signal->value(), 2u);
}

}  // namespace
}  // namespace penstock::testing
