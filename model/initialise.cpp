#include "model/initialise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/math/philox.h"

namespace penstock::model {

namespace {

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return hash;
}

// In (0, 1): 53 bits, never 0, so that its logarithm is finite.
double unit_interval(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

}  // namespace

NormalNumbers::NormalNumbers(uint64_t seed, std::string_view name) : seed_(seed), hash_(fnv1a(name)) {}

void NormalNumbers::fill(int64_t begin, int64_t end, double stddev, float* values) const {
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  const uint32_t purpose = static_cast<uint32_t>(math::RandomPurpose::initialisation) << 24;
  for (int64_t pair = begin / 2; 2 * pair < end; ++pair) {
    const auto index = static_cast<uint64_t>(pair);
    const auto word = math::philox({low(index), high(index), low(hash_), purpose | (high(hash_) & 0xffffffu)},
                                   {low(seed_), high(seed_)});
    const double radius = std::sqrt(-2.0 * std::log(unit_interval(word[0], word[1]))) * stddev;
    const double angle = 2.0 * std::numbers::pi * unit_interval(word[2], word[3]);
    if (2 * pair >= begin) values[2 * pair - begin] = static_cast<float>(radius * std::cos(angle));
    if (2 * pair + 1 < end && 2 * pair + 1 >= begin)
      values[2 * pair + 1 - begin] = static_cast<float>(radius * std::sin(angle));
  }
}

void initial_values(const ParameterSpec& spec, uint64_t seed, int64_t begin, int64_t end, float* values) {
  if (spec.initial != InitialValue::normal) {
    std::fill(values, values + (end - begin), spec.initial == InitialValue::one ? 1.0F : 0.0F);
    return;
  }
  int64_t random_end = end;
  if (spec.vocab_rows >= 0) {
    random_end = std::clamp(spec.vocab_rows * spec.shape[1], begin, end);
  }
  NormalNumbers(seed, spec.name).fill(begin, random_end, spec.stddev, values);
  std::fill(values + (random_end - begin), values + (end - begin), 0.0F);
}

}  // namespace penstock::model
