#include "tests/kernels/math/operation.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/reference/element.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

Lane::Lane(Place where, int variant)
    : place(where),
      device(where == Place::host ? cpu::make_cpu_device({}) : under_test::make_device(variant)),
      stream(device->create_stream("compute", StreamUse::compute)) {}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return 1e-12;
    case DType::fp32:
      return 1e-5;  // 2⁻²⁴ times the growth of sums in another order
    case DType::bf16:
      return 1e-2;  // 2⁻⁹ a rounding, a few in a row
    case DType::fp16:
      return 2e-3;  // 2⁻¹² a rounding, a few in a row
    default:
      return 0;  // integers are exact
  }
}

uint64_t test_seed() {
  const char* given = std::getenv("PENSTOCK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

Tensor Call::workspace(size_t bytes) {
  if (bytes == 0) return {};
  // Plans may ask for vector alignment of their workspace: arenas give it, so no odd places here.
  scratch_.push_back(std::make_unique<GuardedBuffer>(
      "workspace", DType::u8, Shape{static_cast<int64_t>(bytes)}, shift_elements_ / 256 * 256, place_));
  scratch_.back()->poison();
  return scratch_.back()->tensor();
}

GuardedBuffer& Call::place(const std::string& name, DType dtype, const Shape& shape) {
  buffers_.push_back(std::make_unique<GuardedBuffer>(name, dtype, shape, shift_elements_, place_));
  return *buffers_.back();
}

void* Call::place_bytes(const void* bytes, size_t count) {
  scratch_.push_back(std::make_unique<GuardedBuffer>("a copied value", DType::u8,
                                                     Shape{static_cast<int64_t>(count)}, 0, place_));
  scratch_.back()->write_bytes(bytes);
  return scratch_.back()->tensor().data;
}

void Call::check_guards() const {
  for (const auto& buffer : buffers_) buffer->check_guards();
  for (const auto& buffer : scratch_) buffer->check_guards();
}

Operation::Operation(std::string name, DType dtype) : name_(std::move(name)), dtype_(dtype) {
  uint64_t hash = test_seed();
  for (const char letter : name_)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;  // FNV-1a
  random_.seed(hash);
}

int Operation::add(Argument argument) {
  for (double& value : argument.values) {
    if (argument.dtype != DType::i32 && argument.dtype != DType::i64) {
      value = reference::rounded(argument.dtype, value);
    }
  }
  arguments_.push_back(std::move(argument));
  return static_cast<int>(arguments_.size()) - 1;
}

int Operation::input(std::string name, DType dtype, Shape shape, double scale, double mean) {
  std::normal_distribution<double> normal(mean, scale);
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  for (double& value : values) value = normal(random_);
  return add({std::move(name), dtype, shape, Role::input, std::move(values)});
}

int Operation::indices(std::string name, DType dtype, Shape shape, int64_t low, int64_t high) {
  std::uniform_int_distribution<int64_t> uniform(low, high);
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  for (double& value : values) value = static_cast<double>(uniform(random_));
  return add({std::move(name), dtype, shape, Role::input, std::move(values)});
}

int Operation::given(std::string name, DType dtype, Shape shape, std::vector<double> values) {
  return add({std::move(name), dtype, shape, Role::input, std::move(values)});
}

int Operation::updated(std::string name, DType dtype, Shape shape, std::vector<double> values) {
  return add({std::move(name), dtype, shape, Role::accumulated, std::move(values)});
}

int Operation::output(std::string name, DType dtype, Shape shape) {
  return add({std::move(name), dtype, shape, Role::output, {}});
}

int Operation::accumulated(std::string name, DType dtype, Shape shape, double scale) {
  const int argument = input(std::move(name), dtype, shape, scale);
  arguments_.back().role = Role::accumulated;
  return argument;
}

void Operation::fill(Call& call) const {
  for (const Argument& argument : arguments_) {
    GuardedBuffer& buffer = call.place(argument.name, argument.dtype, argument.shape);
    if (argument.role == Role::output) {
      buffer.poison();
    } else {
      buffer.write(argument.values);
    }
  }
}

void Operation::check_inputs(Call& call) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].role == Role::input) {
      const std::vector<double> now = call.buffer(static_cast<int>(i)).read();
      EXPECT_TRUE(std::equal(now.begin(), now.end(), arguments_[i].values.begin(),
                             [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }))
          << arguments_[i].name << ", an input, was changed";
    }
  }
}

std::vector<double> Operation::result_of(const Run& run, int argument) const {
  const Lane lane(Place::host);
  Call call(lane);
  fill(call);
  run(*lane.device, call);
  return call.buffer(argument).read();
}

void Operation::compare(const Argument& argument, const std::vector<double>& expected,
                        const std::vector<double>& found) const {
  if (argument.exact) {
    const auto at = std::mismatch(expected.begin(), expected.end(), found.begin()).first;
    EXPECT_EQ(at, expected.end()) << argument.name << " differs from the reference first at element "
                                  << at - expected.begin();
    return;
  }
  std::vector<double> difference(expected.size());
  size_t worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference[i] = found[i] - expected[i];
    if (!(std::abs(difference[i]) <= std::abs(difference[worst]))) worst = i;
  }
  const double limit = tolerance(argument.dtype == DType::fp64 ? DType::fp64 : dtype_) * norm(expected);
  EXPECT_LE(norm(difference), limit) << argument.name << " differs from the reference, most at element "
                                     << worst << ": " << found[worst] << ", expected " << expected[worst];
}

void Operation::check_runs(const Run& reference, const Run& tested) const {
  SCOPED_TRACE(fmt::format("{} (PENSTOCK_TEST_SEED={})", name_, test_seed()));
  std::vector<std::vector<double>> expected;
  {
    const Lane lane(Place::host);
    Call call(lane);
    fill(call);
    reference(*lane.device, call);
    call.check_guards();
    check_inputs(call);
    for (size_t i = 0; i < arguments_.size(); ++i)
      expected.push_back(call.buffer(static_cast<int>(i)).read());
  }
  std::vector<std::vector<uint8_t>> bits;
  for (int variant = 0; variant < under_test::variants; ++variant) {
    const Lane lane(Place::tested, variant);
    for (const size_t shift : under_test::shifts) {
      if (shift % shift_step_ != 0) continue;
      if (!under_test::every_combination && variant > 0 && shift > 0) continue;
      SCOPED_TRACE(fmt::format("{}, shifted by {} elements", under_test::name_of_variant(variant), shift));
      Call call(lane, shift);
      fill(call);
      tested(*lane.device, call);
      call.check_guards();
      check_inputs(call);
      const bool first = bits.empty();
      for (size_t i = 0; i < arguments_.size(); ++i) {
        const GuardedBuffer& buffer = call.buffer(static_cast<int>(i));
        if (first) {
          bits.push_back(buffer.bytes());
          if (arguments_[i].role != Role::input) compare(arguments_[i], expected[i], buffer.read());
        } else {
          EXPECT_TRUE(buffer.bytes() == bits[i])
              << arguments_[i].name << " has other bits than in the first variant without a shift";
        }
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace penstock::testing
