#include "kernels/cpu/stream.h"

#include <array>
#include <latch>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/thread_scope.h"
#include "tests/kernels/device/contract/device_under_test.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CpuStreamModes : public EveryMode {};
PENSTOCK_EVERY_MODE(CpuStreamModes);

TEST_P(CpuStreamModes, ATaskIsDestroyedOnceItRan) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  const auto token = std::make_shared<int>(5);
  int read = 0;
  cpu::CpuStream::of(*stream).enqueue("read", [token, &read] { read = *token; });
  stream->synchronize();
  EXPECT_EQ(read, 5);
  EXPECT_EQ(token.use_count(), 1);
}

TEST_P(CpuStreamModes, MoveOnlyAndLargeTasks) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  std::array<int, 180> numbers{};
  std::iota(numbers.begin(), numbers.end(), 1);
  int sum = 0;
  cpu::CpuStream::of(*stream).enqueue("sum", [numbers, owned = std::make_unique<int>(7), &sum] {
    sum = std::accumulate(numbers.begin(), numbers.end(), *owned);
  });
  stream->synchronize();
  EXPECT_EQ(sum, 180 * 181 / 2 + 7);
}

#ifdef _OPENMP
TEST_P(CpuStreamModes, ComputeStreamsOwnTheDevicesThreads) {
  DeviceOptions options;
  options.mode = GetParam();
  options.threads = 3;
  const auto device = cpu::make_cpu_device(options);
  const auto compute = device->create_stream("compute", StreamUse::compute);
  const auto transfer = device->create_stream("transfer", StreamUse::transfer);
  const cpu::ThreadScope scope(2);
  std::array<int, 2> threads{};
  cpu::CpuStream::of(*compute).enqueue("threads", [&] { threads[0] = omp_get_max_threads(); });
  cpu::CpuStream::of(*transfer).enqueue("threads", [&] { threads[1] = omp_get_max_threads(); });
  compute->synchronize();
  transfer->synchronize();
  EXPECT_EQ(threads, (std::array<int, 2>{3, 1}));
  EXPECT_EQ(cpu::CpuStream::of(*compute).threads(), 3);
  EXPECT_EQ(cpu::CpuStream::of(*transfer).threads(), 1);
  EXPECT_EQ(omp_get_max_threads(), 2) << "inline work must leave the host thread's number alone";
}
#endif

TEST(CpuStream, AFullQueueHoldsTheHostBack) {
  const auto device = make_device(StreamMode::queued);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  std::latch open(1);
  cpu::CpuStream::of(*stream).enqueue("gate", [&open] { open.wait(); });
  std::atomic<uint64_t> queued{1};
  uint64_t ran = 0;
  const uint64_t total = 4 * cpu::CpuStream::queue_capacity;
  std::thread host([&] {
    for (uint64_t i = 1; i < total; ++i) {
      cpu::CpuStream::of(*stream).enqueue("count", [&ran] { ++ran; });
      queued.fetch_add(1);
    }
  });
  while (queued.load() < cpu::CpuStream::queue_capacity) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_EQ(queued.load(), cpu::CpuStream::queue_capacity)
      << "the gate is closed, so nothing more may be queued";
  open.count_down();
  host.join();
  stream->synchronize();
  EXPECT_EQ(queued.load(), total);
  EXPECT_EQ(ran, total - 1);
}

template <class Call>
std::string usage_error(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(CpuStream, RealAndVirtualTimeDoNotMix) {
  const auto real = make_device(StreamMode::queued);
  const auto replay = make_device(StreamMode::queued, 3, make_virtual_clock());
  const auto stream = replay->create_stream("compute", StreamUse::compute);
  const auto event = real->create_event("weights ready");
  const auto signal = real->create_signal("sent");
  EXPECT_THAT(usage_error([&] { stream->record(*event); }),
              AllOf(HasSubstr("rank 3"), HasSubstr("\"compute\""), HasSubstr("\"weights ready\""),
                    HasSubstr("real clock")));
  EXPECT_THAT(usage_error([&] { stream->wait(*event); }), HasSubstr("\"weights ready\""));
  EXPECT_THAT(usage_error([&] { stream->signal(*signal, 1); }), HasSubstr("\"sent\""));
  EXPECT_THAT(usage_error([&] { stream->wait(*signal, 1); }), HasSubstr("\"sent\""));
}

}  // namespace
}  // namespace penstock::testing
