#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/device/device.h"
#include "kernels/device/error.h"

/// The contract of devices, streams, events and signals: one body of tests, every kind of device. A binary
/// links it with one definition of what stands here.
namespace penstock::testing {

std::unique_ptr<Device> make_device(DeviceOptions options);
inline std::unique_ptr<Device> make_device(StreamMode mode, int rank = 0,
                                           std::shared_ptr<Clock> clock = nullptr) {
  DeviceOptions options;
  options.rank = rank;
  options.mode = mode;
  options.clock = std::move(clock);
  return make_device(options);
}
/// The modes that the device has; queued_modes: without inline_now.
std::vector<StreamMode> every_mode();
std::vector<StreamMode> queued_modes();

/// A task of the host in stream order: the way that costs the least. No task waits for another stream's.
void enqueue(Stream& stream, const char* name, double cost, std::function<void()> task);
inline void enqueue(Stream& stream, const char* name, std::function<void()> task) {
  enqueue(stream, name, 0.0, std::move(task));
}

/// One test body, every mode of streams.
class EveryMode : public ::testing::TestWithParam<StreamMode> {
 protected:
  bool runs_inline() const { return GetParam() == StreamMode::inline_now; }
  std::unique_ptr<Device> device_ = make_device(GetParam());
};

inline std::string mode_name(const ::testing::TestParamInfo<StreamMode>& info) {
  switch (info.param) {
    case StreamMode::queued:
      return "queued";
    case StreamMode::inline_now:
      return "inline_now";
    case StreamMode::shuffled:
      return "shuffled";
  }
  return "unknown";
}

#define PENSTOCK_EVERY_MODE(suite) \
  INSTANTIATE_TEST_SUITE_P(Modes, suite, ::testing::ValuesIn(every_mode()), mode_name)

}  // namespace penstock::testing
