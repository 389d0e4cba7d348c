#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/device/tensor.h"

/// Gradients of the reference implementation, in fp64, against central finite differences.
namespace penstock::testing {

using Doubles = std::vector<double>;

inline Tensor tensor_of(Doubles& values, const Shape& shape) {
  return {values.data(), DType::fp64, shape};
}

inline Doubles normal_values(std::mt19937_64& numbers, int64_t count) {
  std::normal_distribution<double> normal;
  Doubles values(static_cast<size_t>(count));
  for (double& value : values) value = normal(numbers);
  return values;
}

/// A family of the reference implementation with a stream to run it on.
template <class Family>
struct ReferenceRun {
  explicit ReferenceRun(std::unique_ptr<Family> (*make)(Device&))
      : device(cpu::make_cpu_device({})),
        stream(device->create_stream("compute", StreamUse::compute)),
        family(make(*device)) {}
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Family> family;
};

/// Compares `gradient` with the central differences of `loss` in each of `values`, which loss() reads.
inline void expect_gradient(const std::string& name, Doubles& values, const std::function<double()>& loss,
                            const Doubles& gradient) {
  constexpr double step = 1e-5;  // truncation step² and cancellation ε/step are both far below the tolerance
  ASSERT_EQ(values.size(), gradient.size()) << name;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double kept = values[i];
    values[i] = kept + step;
    const double above = loss();
    values[i] = kept - step;
    const double below = loss();
    values[i] = kept;
    const double numerical = (above - below) / (2 * step);
    difference += (gradient[i] - numerical) * (gradient[i] - numerical);
    norm += numerical * numerical;
  }
  EXPECT_GT(norm, 0) << name << ": the loss does not depend on it";
  EXPECT_LE(std::sqrt(difference), 1e-7 * std::sqrt(norm)) << "gradient of " << name;
}

}  // namespace penstock::testing
