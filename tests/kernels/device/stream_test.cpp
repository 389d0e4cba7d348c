#include "kernels/cpu/stream.h"

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"

namespace penstock::cpu {
namespace {

TEST(CpuStream, RunsTasksInOrder) {
  for (const StreamMode mode : {StreamMode::queued, StreamMode::inline_now, StreamMode::shuffled}) {
    DeviceOptions options;
    options.mode = mode;
    const auto device = make_cpu_device(options);
    const auto stream = device->create_stream("compute", StreamUse::compute);
    std::vector<int> order;
    for (int i = 0; i < 3000; ++i)
      CpuStream::of(*stream).enqueue("push", [&order, i] { order.push_back(i); });
    stream->synchronize();
    ASSERT_EQ(order.size(), 3000u);
    for (int i = 0; i < 3000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
}

}  // namespace
}  // namespace penstock::cpu
