#include "kernels/device/stream.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "tests/kernels/device/contract/device_under_test.h"
#include "tests/kernels/device/contract/foreign.h"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;

class StreamModes : public EveryMode {};
PENSTOCK_EVERY_MODE(StreamModes);

TEST_P(StreamModes, TasksRunOnceInOrder) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  std::vector<int> order;
  constexpr int count = 1543;  // some queues full
  for (int i = 0; i < count; ++i) enqueue(*stream, "push", [&order, i] { order.push_back(i); });
  stream->synchronize();
  std::vector<int> expected(static_cast<size_t>(count));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST_P(StreamModes, DestructionRunsWhatIsQueued) {
  int runs = 0;
  {
    const auto stream = device_->create_stream("compute", StreamUse::compute);
    for (int i = 0; i < 300; ++i) enqueue(*stream, "count", [&runs] { ++runs; });
  }
  EXPECT_EQ(runs, 300);
}

TEST_P(StreamModes, CopyFillAndHostTaskKeepOrder) {
  const auto stream = device_->create_stream("transfer", StreamUse::transfer);
  const auto memory = device_->create_host_memory("copied", 6 * sizeof(int));
  EXPECT_EQ(memory->bytes(), 6 * sizeof(int));
  int* const source = memory->as<int>();
  int* const target = source + 3;
  EXPECT_EQ(std::vector<int>(source, source + 6), std::vector<int>(6, 0));
  std::iota(source, source + 3, 1);
  std::vector<int> seen;
  stream->copy(target, source, 3 * sizeof(int));
  stream->host_task("look", 0.0, [&] { seen.assign(target, target + 3); });
  stream->fill_zero(target, 2 * sizeof(int));
  stream->copy(nullptr, nullptr, 0);
  stream->fill_zero(nullptr, 0);
  stream->synchronize();
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(std::vector<int>(target, target + 3), (std::vector<int>{0, 0, 3}));
}

TEST_P(StreamModes, ArenasAreCopiedToAndFrom) {
  const auto stream = device_->create_stream("transfer", StreamUse::transfer);
  Arena& arena = device_->create_arena(ArenaTag::activations, 1024);
  auto* const there = static_cast<int*>(arena.allocate("numbers", 400));
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 1);
  std::vector<int> back(100, -1);
  stream->copy(there, numbers.data(), 400);
  stream->fill_zero(there, 40);
  stream->copy(back.data(), there, 400);
  stream->synchronize();
  std::fill_n(numbers.begin(), 10, 0);
  EXPECT_EQ(back, numbers);
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
      enqueue(*ring[i], "pass", [&token, &in_turn, i] {
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

template <class Call>
std::string usage_error(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST_P(StreamModes, ObjectsOfOtherBackendsAreRefused) {
  const auto stream = device_->create_stream("compute", StreamUse::compute);
  ForeignStream foreign_stream;
  ForeignEvent event;
  ForeignSignal signal;
  EXPECT_THAT(usage_error([&] { enqueue(foreign_stream, "task", [] {}); }), HasSubstr("foreign stream"));
  EXPECT_THAT(usage_error([&] { stream->record(event); }), HasSubstr("foreign event"));
  EXPECT_THAT(usage_error([&] { stream->wait(event); }), HasSubstr("foreign event"));
  EXPECT_THAT(usage_error([&] { stream->signal(signal, 1); }), HasSubstr("foreign signal"));
  EXPECT_THAT(usage_error([&] { stream->wait(signal, 1); }), HasSubstr("foreign signal"));
}

}  // namespace
}  // namespace penstock::testing
