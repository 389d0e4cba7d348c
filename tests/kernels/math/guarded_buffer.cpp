#include "tests/kernels/math/guarded_buffer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <gtest/gtest.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "kernels/reference/element.h"
#include "tests/kernels/math/tested_memory.h"

namespace penstock::testing {
namespace {

constexpr size_t guard_bytes = 256;
constexpr size_t base_alignment = 4096;
constexpr uint8_t guard_value = 0xA5;
constexpr int32_t integer_poison = -77777777;

void store_element(const Tensor& x, int64_t i, double value) {
  if (x.dtype == DType::i32) {
    x.as<int32_t>()[i] = static_cast<int32_t>(value);
  } else if (x.dtype == DType::i64) {
    x.as<int64_t>()[i] = static_cast<int64_t>(value);
  } else {
    reference::store(x, i, value);
  }
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::string name, DType dtype, const Shape& shape, size_t shift_elements,
                             Place place)
    : name_(std::move(name)) {
  const size_t shift = shift_elements * size_of(dtype);
  const size_t bytes = Tensor(nullptr, dtype, shape).bytes();
  memory_.assign(base_alignment + guard_bytes + shift + bytes + guard_bytes, guard_value);
  if (place == Place::tested) elsewhere_ = tested_memory::reserve(memory_.size());
  auto* const base = elsewhere_ != nullptr ? static_cast<uint8_t*>(elsewhere_) : memory_.data();
  const auto start = reinterpret_cast<uintptr_t>(base) + guard_bytes;
  offset_ = guard_bytes + (base_alignment - start % base_alignment) % base_alignment + shift;
  tensor_ = Tensor(base + offset_, dtype, shape);
  host_ = Tensor(memory_.data() + offset_, dtype, shape);
  send();
  forbid_guards();
}

GuardedBuffer::~GuardedBuffer() {
  allow_guards();
  if (elsewhere_ != nullptr) tested_memory::release(elsewhere_);
}

void GuardedBuffer::send() {
  if (elsewhere_ != nullptr) tested_memory::upload(elsewhere_, memory_.data(), memory_.size());
}

void GuardedBuffer::fetch() const {
  if (elsewhere_ != nullptr) tested_memory::download(memory_.data(), elsewhere_, memory_.size());
}

void GuardedBuffer::forbid_guards() const {
#ifdef __SANITIZE_ADDRESS__
  ASAN_POISON_MEMORY_REGION(memory_.data(), offset_);
  ASAN_POISON_MEMORY_REGION(memory_.data() + offset_ + tensor_.bytes(),
                            memory_.size() - offset_ - tensor_.bytes());
#endif
}

void GuardedBuffer::allow_guards() const {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(memory_.data(), memory_.size());
#endif
}

void GuardedBuffer::poison() {
  const bool integer = host_.dtype == DType::i32 || host_.dtype == DType::i64;
  if (host_.dtype == DType::u8) {
    std::memset(host_.data, 0xFF, host_.bytes());  // NaN as fp32, bf16 and fp64
  } else {
    for (int64_t i = 0; i < host_.elements(); ++i) {
      store_element(host_, i, integer ? integer_poison : std::numeric_limits<double>::quiet_NaN());
    }
  }
  send();
}

void GuardedBuffer::write(const std::vector<double>& values) {
  ASSERT_EQ(static_cast<int64_t>(values.size()), host_.elements()) << name_;
  for (size_t i = 0; i < values.size(); ++i) store_element(host_, static_cast<int64_t>(i), values[i]);
  send();
}

void GuardedBuffer::write_bytes(const void* bytes) {
  std::memcpy(host_.data, bytes, host_.bytes());
  send();
}

std::vector<double> GuardedBuffer::read() const {
  fetch();
  std::vector<double> values(static_cast<size_t>(host_.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = reference::load(host_, static_cast<int64_t>(i));
  return values;
}

std::vector<uint8_t> GuardedBuffer::bytes() const {
  fetch();
  const auto* begin = host_.as<const uint8_t>();
  return {begin, begin + host_.bytes()};
}

void GuardedBuffer::check_guards() const {
  fetch();
  allow_guards();
  const auto intact = [](uint8_t byte) { return byte == guard_value; };
  const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(offset_);
  const auto end = begin + static_cast<std::ptrdiff_t>(tensor_.bytes());
  EXPECT_TRUE(std::all_of(begin - guard_bytes, begin, intact))
      << "bytes before " << name_ << " were overwritten";
  EXPECT_TRUE(std::all_of(end, end + guard_bytes, intact)) << "bytes behind " << name_ << " were overwritten";
  forbid_guards();
}

}  // namespace penstock::testing
