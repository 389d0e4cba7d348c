#include <latch>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>

#include "kernels/cpu/stream.h"
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
  cpu::CpuStream::of(stream).enqueue(name, [what] { throw std::runtime_error(what); });
}

TEST(Failure, NobodyHangsOnDroppedWork) {
  const auto device = make_device(StreamMode::queued);
  const auto failing = device->create_stream("failing", StreamUse::compute);
  const auto other = device->create_stream("other", StreamUse::compute);
  const auto event = device->create_event("event");
  const auto signal = device->create_signal("signal");
  const auto never = device->create_signal("never written");
  std::latch gate(1);
  bool ran = false;
  cpu::CpuStream::of(*failing).enqueue("gate", [&gate] { gate.wait(); });
  enqueue_failure(*failing);
  failing->wait(*never, 1);  // dropped: nobody will write it
  failing->record(*event);
  failing->signal(*signal, 9);
  other->wait(*event);
  other->wait(*signal, 9);
  cpu::CpuStream::of(*other).enqueue("after", [&ran] { ran = true; });
  gate.count_down();
  other->synchronize();
  EXPECT_TRUE(ran);
  EXPECT_THAT(device_error([&] { failing->synchronize(); }), HasSubstr("\"gemm\""));
}

TEST(Failure, AHostBlockedByAFullQueueSeesIt) {
  const auto device = make_device(StreamMode::queued);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  std::latch gate(1);
  cpu::CpuStream::of(*stream).enqueue("gate", [&gate] { gate.wait(); });
  enqueue_failure(*stream);
  std::string found;
  std::thread host([&] {
    found = device_error([&] {
      for (uint64_t i = 0; i < 3 * cpu::CpuStream::queue_capacity; ++i)
        cpu::CpuStream::of(*stream).enqueue("work", [] {});
    });
  });
  gate.count_down();
  host.join();
  EXPECT_THAT(found, HasSubstr("\"gemm\""));
}

TEST(Failure, InlineSurfacesFromTheCallThatRanIt) {
  const auto device = make_device(StreamMode::inline_now, 4);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  EXPECT_THAT(
      device_error([&] { enqueue_failure(*stream); }),
      AllOf(HasSubstr("rank 4"), HasSubstr("\"compute\""), HasSubstr("\"gemm\""), HasSubstr("K is 0")));
  EXPECT_NO_THROW(stream->synchronize());
}

}  // namespace
}  // namespace penstock::testing
