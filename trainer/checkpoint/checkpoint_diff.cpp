#include "trainer/checkpoint/checkpoint_diff.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "kernels/device/bfloat16.h"

namespace penstock::checkpoint {
namespace {

constexpr int64_t block_elements = int64_t{1} << 18;

double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f) {
    value =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

double value_of(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::fp32:
      return load<float>(at);
    case DType::bf16:
      return static_cast<float>(load<bfloat16>(at));
    case DType::fp16:
      return half_value(load<uint16_t>(at));
    case DType::fp64:
      return load<double>(at);
    case DType::i32:
      return load<int32_t>(at);
    case DType::i64:
      return static_cast<double>(load<int64_t>(at));
    case DType::u8:
      return load<uint8_t>(at);
  }
  return 0;
}

// One element more that differs.
void count(double a, double b, int64_t element, ValueDifference& difference) {
  if (difference.differing++ == 0) difference.first = element;
  const double infinity = std::numeric_limits<double>::infinity();
  const bool finite = std::isfinite(a) && std::isfinite(b);
  const double absolute = finite ? std::abs(a - b) : infinity;
  const double scale = std::max(std::abs(a), std::abs(b));
  // Zeros of two signs differ in their bits alone.
  const double relative = !finite ? infinity : scale == 0 ? 0 : absolute / scale;
  difference.absolute = std::max(difference.absolute, absolute);
  difference.relative = std::max(difference.relative, relative);
}

class TensorComparison {
 public:
  TensorComparison(const Checkpoint& a, const Checkpoint& b) : a_(a), b_(b) {}

  ValueDifference operator()(const TensorDescription& tensor) {
    ValueDifference difference;
    difference.name = tensor.name;
    difference.shape = tensor.shape;
    const size_t size = size_of(tensor.dtype);
    for (int64_t at = 0; at < tensor.shape.elements(); at += block_elements) {
      const int64_t elements = std::min(block_elements, tensor.shape.elements() - at);
      const size_t bytes = static_cast<size_t>(elements) * size;
      left_.resize(bytes);
      right_.resize(bytes);
      a_.read(tensor.name, tensor.dtype, at, elements, left_.data());
      b_.read(tensor.name, tensor.dtype, at, elements, right_.data());
      if (std::memcmp(left_.data(), right_.data(), bytes) == 0) continue;
      for (size_t i = 0; i < bytes; i += size) {
        if (std::memcmp(&left_[i], &right_[i], size) == 0) continue;
        count(value_of(tensor.dtype, &left_[i]), value_of(tensor.dtype, &right_[i]),
              at + static_cast<int64_t>(i / size), difference);
      }
    }
    return difference;
  }

 private:
  const Checkpoint& a_;
  const Checkpoint& b_;
  std::vector<std::byte> left_;
  std::vector<std::byte> right_;
};

std::string describe(const TensorDescription* tensor) {
  if (tensor == nullptr) return "missing";
  return fmt::format("{} {}", name_of(tensor->dtype), to_string(tensor->shape));
}

void add(const std::string& name, const std::string& a, const std::string& b,
         std::vector<OtherDifference>& found) {
  if (a != b) found.push_back({name, a, b});
}

void compare_state(const Manifest& a, const Manifest& b, Comparison& comparison) {
  add("step", fmt::format("{}", a.step), fmt::format("{}", b.step), comparison.state);
  add("samples", fmt::format("{}", a.samples), fmt::format("{}", b.samples), comparison.state);
  std::set<std::string> names;
  for (const auto& [name, value] : a.state) names.insert(name);
  for (const auto& [name, value] : b.state) names.insert(name);
  const auto text = [](const Manifest& manifest, const std::string& name) {
    const auto at = manifest.state.find(name);
    return at == manifest.state.end() ? std::string("missing") : at->second.dump();
  };
  for (const std::string& name : names) {
    add("state." + name, text(a, name), text(b, name),
        is_of_arrangement(name) ? comparison.arrangement : comparison.state);
  }
}

}  // namespace

bool is_of_arrangement(std::string_view name) {
  return name == "budget";
}

Comparison compare(const Checkpoint& a, const Checkpoint& b) {
  Comparison comparison;
  std::set<std::string> names;
  for (const Checkpoint* one : {&a, &b}) {
    for (const GlobalTensor& tensor : one->manifest().tensors) names.insert(tensor.name);
  }
  TensorComparison compare_values(a, b);
  for (const std::string& name : names) {
    const GlobalTensor* left = a.find(name);
    const GlobalTensor* right = b.find(name);
    if (left == nullptr || right == nullptr || left->dtype != right->dtype || left->shape != right->shape) {
      comparison.others.push_back({name, describe(left), describe(right)});
      continue;
    }
    ++comparison.tensors;
    comparison.bytes += static_cast<uint64_t>(left->shape.elements()) * size_of(left->dtype);
    ValueDifference difference = compare_values(*left);
    if (difference.differing > 0) comparison.values.push_back(std::move(difference));
  }
  compare_state(a.manifest(), b.manifest(), comparison);
  return comparison;
}

std::string index_text(const Shape& shape, int64_t element) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank));
  for (int axis = shape.rank - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return fmt::format("({})", fmt::join(index, ", "));
}

}  // namespace penstock::checkpoint
