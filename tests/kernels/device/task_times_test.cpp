#include "kernels/cpu/task_times.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include "kernels/cpu/stream.h"
#include "tests/kernels/device/contract/device_under_test.h"

namespace penstock::testing {
namespace {

class CpuTaskTimes : public EveryMode {};
PENSTOCK_EVERY_MODE(CpuTaskTimes);

TEST_P(CpuTaskTimes, AddsUpByNameWhileItLives) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  const auto event = device_->create_event("done");
  const auto sleep = [&](const char* name, int milliseconds) {
    cpu::CpuStream::of(*stream).enqueue(
        name, [milliseconds] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
  };
  sleep("before", 1);
  stream->synchronize();
  {
    cpu::TaskTimes times;
    sleep("short", 1);
    sleep("long", 40);
    sleep("short", 1);
    stream->record(*event);
    stream->synchronize();
    const auto found = times.take();
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].name, "long");
    EXPECT_EQ(found[0].count, 1U);
    EXPECT_GE(found[0].seconds, 0.040);
    EXPECT_EQ(found[1].name, "short");
    EXPECT_EQ(found[1].count, 2U);
    EXPECT_GE(found[1].seconds, 0.002);

    sleep("again", 1);
    stream->synchronize();
    ASSERT_EQ(times.take().size(), 1U);
    sleep("left", 1);
    stream->synchronize();
  }
  sleep("after", 1);
  stream->synchronize();
  EXPECT_TRUE(cpu::TaskTimes().take().empty());
}

}  // namespace
}  // namespace penstock::testing
