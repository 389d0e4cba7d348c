#include "kernels/cpu/stream.h"

#include <array>
#include <latch>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "kernels/cpu/thread_scope.h"
#include "tests/kernels/device/device_fixture.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace penstock::cpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class StreamModes : public EveryMode {};
PENSTOCK_EVERY_MODE(StreamModes);

TEST_P(StreamModes, TasksRunOnceInOrder) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  std::vector<int> order;
  const int count = 3 * static_cast<int>(CpuStream::queue_capacity) + 7;
  for (int i = 0; i < count; ++i) CpuStream::of(*stream).enqueue("push", [&order, i] { order.push_back(i); });
  stream->synchronize();
  std::vector<int> expected(static_cast<size_t>(count));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST_P(StreamModes, DestructionRunsWhatIsQueued) {
  int runs = 0;
  {
    const auto stream = device_->create_stream("compute", StreamUse::compute);
    for (int i = 0; i < 300; ++i) CpuStream::of(*stream).enqueue("count", [&runs] { ++runs; });
  }
  EXPECT_EQ(runs, 300);
}

TEST_P(StreamModes, ATaskIsDestroyedOnceItRan) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  const auto token = std::make_shared<int>(5);
  int read = 0;
  CpuStream::of(*stream).enqueue("read", [token, &read] { read = *token; });
  stream->synchronize();
  EXPECT_EQ(read, 5);
  EXPECT_EQ(token.use_count(), 1);
}

TEST_P(StreamModes, MoveOnlyAndLargeTasks) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  std::array<int, 180> numbers{};
  std::iota(numbers.begin(), numbers.end(), 1);
  int sum = 0;
  CpuStream::of(*stream).enqueue("sum", [numbers, owned = std::make_unique<int>(7), &sum] {
    sum = std::accumulate(numbers.begin(), numbers.end(), *owned);
  });
  stream->synchronize();
  EXPECT_EQ(sum, 180 * 181 / 2 + 7);
}

TEST_P(StreamModes, CopyFillAndHostTaskKeepOrder) {
  const auto stream = device_->create_stream("transfer", StreamUse::transfer);
  std::vector<int> source{1, 2, 3};
  std::vector<int> target(3, 9);
  std::vector<int> seen;
  stream->copy(target.data(), source.data(), 3 * sizeof(int));
  stream->host_task("look", 0.0, [&] { seen = target; });
  stream->fill_zero(target.data(), 2 * sizeof(int));
  stream->copy(nullptr, nullptr, 0);
  stream->fill_zero(nullptr, 0);
  stream->synchronize();
  EXPECT_EQ(seen, source);
  EXPECT_EQ(target, (std::vector<int>{0, 0, 3}));
}

TEST_P(StreamModes, StampsOfARealClockNeverFall) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  std::vector<double> stamps(50, -1.0);
  for (double& stamp : stamps) stream->stamp(&stamp);
  stream->synchronize();
  EXPECT_GE(stamps.front(), 0.0);
  EXPECT_TRUE(std::is_sorted(stamps.begin(), stamps.end()));
}

TEST_P(StreamModes, ManyStreamsPassATokenRound) {
  // Each task adds to a plain integer; only the events order them, which thread sanitizer checks too.
  constexpr size_t streams = 12;
  constexpr int rounds = 40;
  std::vector<std::unique_ptr<Stream>> ring;
  std::vector<std::unique_ptr<Event>> events;
  for (size_t i = 0; i < streams; ++i) {
    ring.push_back(device_->create_stream("ring " + std::to_string(i), StreamUse::transfer));
    events.push_back(device_->create_event("token " + std::to_string(i)));
  }
  size_t token = 0;
  bool in_turn = true;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < streams; ++i) {
      ring[i]->wait(*events[(i + streams - 1) % streams]);
      CpuStream::of(*ring[i]).enqueue("pass", [&token, &in_turn, i] {
        in_turn = in_turn && token % streams == i;
        ++token;
      });
      ring[i]->record(*events[i]);
    }
  }
  for (const auto& stream : ring) stream->synchronize();
  EXPECT_TRUE(in_turn);
  EXPECT_EQ(token, streams * rounds);
}

#ifdef _OPENMP
TEST_P(StreamModes, ComputeStreamsOwnTheDevicesThreads) {
  DeviceOptions options;
  options.mode = GetParam();
  options.threads = 3;
  const auto device = make_cpu_device(options);
  const auto compute = device->create_stream("compute", StreamUse::compute);
  const auto transfer = device->create_stream("transfer", StreamUse::transfer);
  const ThreadScope scope(2);
  std::array<int, 2> threads{};
  CpuStream::of(*compute).enqueue("threads", [&] { threads[0] = omp_get_max_threads(); });
  CpuStream::of(*transfer).enqueue("threads", [&] { threads[1] = omp_get_max_threads(); });
  compute->synchronize();
  transfer->synchronize();
  EXPECT_EQ(threads, (std::array<int, 2>{3, 1}));
  EXPECT_EQ(CpuStream::of(*compute).threads(), 3);
  EXPECT_EQ(CpuStream::of(*transfer).threads(), 1);
  EXPECT_EQ(omp_get_max_threads(), 2) << "inline work must leave the host thread's number alone";
}
#endif

TEST(CpuStream, AFullQueueHoldsTheHostBack) {
  const auto device = make_device(StreamMode::queued);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  std::latch open(1);
  CpuStream::of(*stream).enqueue("gate", [&open] { open.wait(); });
  std::atomic<uint64_t> queued{1};
  uint64_t ran = 0;
  const uint64_t total = 4 * CpuStream::queue_capacity;
  std::thread host([&] {
    for (uint64_t i = 1; i < total; ++i) {
      CpuStream::of(*stream).enqueue("count", [&ran] { ++ran; });
      queued.fetch_add(1);
    }
  });
  while (queued.load() < CpuStream::queue_capacity) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_EQ(queued.load(), CpuStream::queue_capacity) << "the gate is closed, so nothing more may be queued";
  open.count_down();
  host.join();
  stream->synchronize();
  EXPECT_EQ(queued.load(), total);
  EXPECT_EQ(ran, total - 1);
}

/// A stream, event and signal of some other backend.
class ForeignStream final : public Stream {
 public:
  const std::string& name() const override { return name_; }
  void record(Event&) override {}
  void wait(const Event&) override {}
  void signal(Signal&, uint64_t) override {}
  void wait(const Signal&, uint64_t) override {}
  void copy(void*, const void*, size_t) override {}
  void fill_zero(void*, size_t) override {}
  void host_task(const char*, double, std::function<void()>) override {}
  void stamp(double*) override {}
  void synchronize() override {}

 private:
  std::string name_ = "foreign stream";
};

class ForeignEvent final : public Event {
 public:
  const std::string& name() const override { return name_; }
  bool query() const override { return true; }
  void synchronize() const override {}
  double seconds() const override { return 0; }

 private:
  std::string name_ = "foreign event";
};

class ForeignSignal final : public Signal {
 public:
  const std::string& name() const override { return name_; }
  uint64_t value() const override { return 0; }

 private:
  std::string name_ = "foreign signal";
};

template <class Call>
std::string usage_error(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(CpuStream, ObjectsOfOtherBackendsAreRefused) {
  const auto device = make_device(StreamMode::queued);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  ForeignStream foreign_stream;
  ForeignEvent event;
  ForeignSignal signal;
  EXPECT_THAT(usage_error([&] { CpuStream::of(foreign_stream); }), HasSubstr("foreign stream"));
  EXPECT_THAT(usage_error([&] { stream->record(event); }), HasSubstr("foreign event"));
  EXPECT_THAT(usage_error([&] { stream->wait(event); }), HasSubstr("foreign event"));
  EXPECT_THAT(usage_error([&] { stream->signal(signal, 1); }), HasSubstr("foreign signal"));
  EXPECT_THAT(usage_error([&] { stream->wait(signal, 1); }), HasSubstr("foreign signal"));
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
}  // namespace penstock::cpu
