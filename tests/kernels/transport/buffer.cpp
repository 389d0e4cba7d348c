#include "tests/kernels/transport/buffer.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"
#include "tests/kernels/transport/rank_device.h"

namespace penstock::transport {
namespace {

constexpr size_t guard_bytes = 64;
constexpr std::byte poison{0xa5};

}  // namespace

Buffer::Buffer(DType dtype, int64_t elements)
    : dtype_(dtype),
      elements_(elements),
      memory_(make_memory(static_cast<size_t>(elements) * size_of(dtype) + guard_bytes)) {
  std::fill_n(memory_.get(), static_cast<size_t>(elements) * size_of(dtype) + guard_bytes, poison);
}

void Buffer::set(int64_t element, int value) {
  void* const data = memory_.get() + static_cast<size_t>(element) * size_of(dtype_);
  switch (dtype_) {
    case DType::fp32:
      *static_cast<float*>(data) = static_cast<float>(value);
      return;
    case DType::bf16:
      *static_cast<bfloat16*>(data) = bfloat16(static_cast<float>(value));
      return;
    case DType::fp64:
      *static_cast<double*>(data) = value;
      return;
    case DType::i32:
      *static_cast<int32_t*>(data) = value;
      return;
    case DType::i64:
      *static_cast<int64_t*>(data) = value;
      return;
    case DType::fp16:
      *static_cast<float16*>(data) = float16(static_cast<float>(value));
      return;
    case DType::u8:
      *static_cast<uint8_t*>(data) = static_cast<uint8_t>(value);
      return;
  }
}

int Buffer::get(int64_t element) const {
  const void* const data = memory_.get() + static_cast<size_t>(element) * size_of(dtype_);
  switch (dtype_) {
    case DType::fp32:
      return static_cast<int>(*static_cast<const float*>(data));
    case DType::bf16:
      return static_cast<int>(static_cast<float>(*static_cast<const bfloat16*>(data)));
    case DType::fp64:
      return static_cast<int>(*static_cast<const double*>(data));
    case DType::i32:
      return *static_cast<const int32_t*>(data);
    case DType::i64:
      return static_cast<int>(*static_cast<const int64_t*>(data));
    case DType::fp16:
      return static_cast<int>(static_cast<float>(*static_cast<const float16*>(data)));
    case DType::u8:
      return *static_cast<const uint8_t*>(data);
  }
  return -1;
}

Buffer& Buffer::fill(int seed) {
  for (int64_t i = 0; i < elements_; ++i) set(i, pattern(seed, i));
  return *this;
}

int Buffer::pattern(int seed, int64_t element) {
  return static_cast<int>((seed * 5 + element * 3 + element / 11) % 14);
}

bool Buffer::guard_intact() const {
  const std::byte* const end = memory_.get() + static_cast<size_t>(elements_) * size_of(dtype_);
  return std::all_of(end, end + guard_bytes, [](std::byte byte) { return byte == poison; });
}

void Expectation::element(int64_t index, int expected) {
  const int found = buffer_.get(index);
  if (found != expected && first_.empty())
    first_ = fmt::format("element {} of {} is {}, expected {}", index, buffer_.elements(), found, expected);
}

std::string Expectation::result() const {
  if (!buffer_.guard_intact()) return "something was written behind the last element";
  return first_;
}

std::string difference_from(const Buffer& buffer, int seed) {
  return difference(buffer, [seed](int64_t i) { return Buffer::pattern(seed, i); });
}

}  // namespace penstock::transport
