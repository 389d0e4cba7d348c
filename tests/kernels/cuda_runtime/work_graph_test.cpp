// Work that is captured once and launched again, and the ranges that profilers see.
#include "kernels/device/work_graph.h"

#include <string>

#include <gmock/gmock.h>

#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/device/error.h"
#include "kernels/device/profiler_range.h"
#include "tests/allocation_count/allocation_count.h"
#include "tests/fake_cuda/enqueue.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/profiler.h"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;

class WorkGraphTest : public ::testing::Test {
 protected:
  WorkGraphTest() {
    fake_cuda::reset();
    device_ = cuda::make_cuda_device({});
    stream_ = device_->create_stream("compute", StreamUse::compute);
  }

  std::unique_ptr<WorkGraph> capture(const std::function<void()>& queue) {
    return dynamic_cast<WorkGraphs&>(*device_).capture(*stream_, queue);
  }
  void kernel(std::function<void()> work) {
    ASSERT_EQ(fake_cuda::enqueue(cuda::handle_of(*stream_), std::move(work)), cudaSuccess);
  }
  std::string refusal(const std::function<void()>& queue) {
    try {
      capture(queue);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "captured";
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(WorkGraphTest, RunsWhenItIsLaunchedAndReadsWhatIsThereThen) {
  const auto host = device_->create_host_memory("words", 24);
  auto* const words = host->as<uint64_t>();
  const auto graph = capture([&] {
    stream_->copy(&words[1], &words[0], 8);
    kernel([words] { words[2] += words[1]; });
  });
  words[0] = 5;
  stream_->synchronize();
  EXPECT_EQ(words[2], 0u) << "captured, not run";
  for (const uint64_t value : {5, 70, 900}) {
    words[0] = value;
    graph->launch(*stream_);
    stream_->synchronize();
  }
  EXPECT_EQ(words[2], 975u);
  EXPECT_EQ(fake_cuda::graph_launches(), 3u);
}

TEST_F(WorkGraphTest, MayHoldMoreThanTheHostRunsAhead) {
  std::atomic<int> ran{0};
  const auto graph = capture([&] {
    for (uint64_t i = 0; i < 3 * cuda::CudaStream::run_ahead; ++i) kernel([&] { ++ran; });
  });
  graph->launch(*stream_);
  stream_->synchronize();
  EXPECT_EQ(ran, 3 * static_cast<int>(cuda::CudaStream::run_ahead));
}

TEST_F(WorkGraphTest, WhatCannotBeCapturedIsNamedAndTheStreamGoesOn) {
  const auto event = device_->create_event("ready");
  const auto signal = device_->create_signal("gate");
  double stamp = -1;
  const std::string end = " cannot be captured in a graph";
  EXPECT_EQ(refusal([&] { stream_->stamp(&stamp); }), "rank 0, stream \"compute\": a stamp" + end);
  EXPECT_THAT(refusal([&] { stream_->record(*event); }), HasSubstr("recording an event" + end));
  EXPECT_THAT(refusal([&] { stream_->wait(*event); }), HasSubstr("waiting for an event" + end));
  EXPECT_THAT(refusal([&] { stream_->signal(*signal, 1); }), HasSubstr("writing a signal" + end));
  EXPECT_THAT(refusal([&] { stream_->wait(*signal, 1); }), HasSubstr("waiting for a signal" + end));
  EXPECT_THAT(refusal([&] { stream_->synchronize(); }), HasSubstr("waiting for the stream" + end));
  bool ran = false;
  EXPECT_THAT(refusal([&] {
                kernel([&] { ran = true; });
                stream_->host_task("late", 0, [] {});
              }),
              HasSubstr("a host task" + end));
  fake_cuda::fail_call("cudaGraphInstantiate", cudaErrorMemoryAllocation);
  EXPECT_THAT(refusal([&] { kernel([&] { ran = true; }); }), HasSubstr("preparing a captured graph"));
  stream_->stamp(&stamp);
  stream_->synchronize();
  EXPECT_FALSE(ran);
  EXPECT_GT(stamp, 0);
}

TEST_F(WorkGraphTest, RangesAllocateNothing) {
  const auto range = dynamic_cast<ProfilerRanges&>(*device_).create_range("F 3 of stage 1");
  const auto begin_and_end = [&] { const InProfilerRange in(range.get()); };
  begin_and_end();
  const int64_t before = allocations();
  for (int i = 0; i < 100; ++i) begin_and_end();
  EXPECT_EQ(allocations(), before);

  fake_cuda::start_profiling();
  begin_and_end();
  const fake_cuda::ProfiledRanges seen = fake_cuda::stop_profiling();
  EXPECT_EQ(seen.names, (std::vector<std::string>{"F 3 of stage 1"}));
  EXPECT_EQ(seen.ended, 1u);
}

}  // namespace
}  // namespace penstock::testing
