#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/stream.h"
#include "kernels/device/error.h"

namespace penstock::cpu {

inline std::unique_ptr<Device> make_device(StreamMode mode, int rank = 0,
                                           std::shared_ptr<Clock> clock = nullptr) {
  DeviceOptions options;
  options.rank = rank;
  options.mode = mode;
  options.clock = std::move(clock);
  return make_cpu_device(options);
}

/// One test body, every mode of streams.
class EveryMode : public testing::TestWithParam<StreamMode> {
 protected:
  bool runs_inline() const { return GetParam() == StreamMode::inline_now; }
  std::unique_ptr<Device> device_ = make_device(GetParam());
};

inline std::string mode_name(const testing::TestParamInfo<StreamMode>& info) {
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

#define PENSTOCK_EVERY_MODE(suite)                                                                     \
  INSTANTIATE_TEST_SUITE_P(                                                                            \
      Modes, suite, testing::Values(StreamMode::queued, StreamMode::inline_now, StreamMode::shuffled), \
      mode_name)

}  // namespace penstock::cpu
