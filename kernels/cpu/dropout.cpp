#include "kernels/cpu/dropout.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/math/philox.h"

namespace penstock::cpu {
namespace {

/// Counters worked on at once, and the elements that their words decide on.
constexpr int group = 16;
constexpr int group_elements = 4 * group;
/// Elements of one piece, counted from a sample's first; a multiple of group_elements.
constexpr int64_t grain = 16384;

/// All that the words of one sample are keyed by.
struct Key {
  std::array<uint32_t, 4> counter;  ///< word 0 is the element's
  std::array<uint32_t, 2> key;
};

Key key_of(const math::DropoutSite& site, uint64_t step, uint64_t sample) {
  const auto purpose = static_cast<uint32_t>(math::RandomPurpose::dropout);
  return {{0, static_cast<uint32_t>(sample), static_cast<uint32_t>(step), purpose << 24 | site.site},
          {static_cast<uint32_t>(site.seed),
           static_cast<uint32_t>(site.seed >> 32) ^ static_cast<uint32_t>(sample >> 32)}};
}

/// math::philox of the 16 counters from `first` on, one in each lane; words[j * 16 + lane] is word j. Words
/// are kept in 64 bits, as the compiler then vectorises the products without taking halves apart.
void philox_group(uint32_t first, const Key& base, uint32_t* words) {
  constexpr uint64_t low_half = 0xffffffffU;
#pragma omp simd
  for (int lane = 0; lane < group; ++lane) {
    uint64_t word0 = first + static_cast<uint32_t>(lane);
    uint64_t word1 = base.counter[1];
    uint64_t word2 = base.counter[2];
    uint64_t word3 = base.counter[3];
    uint32_t key0 = base.key[0];
    uint32_t key1 = base.key[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = 0xD2511F53U * word0;
      const uint64_t product1 = 0xCD9E8D57U * word2;
      word0 = (product1 >> 32) ^ word1 ^ key0;
      word1 = product1 & low_half;
      word2 = (product0 >> 32) ^ word3 ^ key1;
      word3 = product0 & low_half;
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    words[lane] = static_cast<uint32_t>(word0);
    words[group + lane] = static_cast<uint32_t>(word1);
    words[2 * group + lane] = static_cast<uint32_t>(word2);
    words[3 * group + lane] = static_cast<uint32_t>(word3);
  }
}

}  // namespace

template <class T>
void run_dropout(const Tensor& x, const Tensor& samples, const math::StepScalars& scalars,
                 const math::DropoutSite& site, const Tensor& y) {
  const int64_t count = samples.shape[0];
  const int64_t elements = x.elements() / count;
  const int64_t pieces = (elements + grain - 1) / grain;
  const auto threshold =
      static_cast<uint32_t>(std::ceil(static_cast<double>(site.probability) * 4294967296.0));
  const float scale = 1.0F / (1.0F - site.probability);
  parallel_blocks(count * pieces, [&](int64_t piece) {
    const int64_t sample = piece / pieces;
    const Key key = key_of(site, scalars.step, static_cast<uint64_t>(samples.as<const int64_t>()[sample]));
    const int64_t begin = piece % pieces * grain;
    const int64_t end = std::min(elements, begin + grain);
    const T* const in = x.as<const T>() + sample * elements;
    T* const out = y.as<T>() + sample * elements;
    alignas(64) std::array<uint32_t, group_elements> words;
    alignas(64) std::array<float, group_elements> factors;
    for (int64_t first = begin; first < end; first += group_elements) {
      philox_group(static_cast<uint32_t>(first / 4), key, words.data());
      const uint32_t* const word = words.data();
      float* const factor = factors.data();
      for (int j = 0; j < 4; ++j) {
#pragma omp simd
        for (int lane = 0; lane < group; ++lane) {
          factor[4 * lane + j] = word[j * group + lane] >= threshold ? scale : 0.0F;
        }
      }
      const auto here = static_cast<int>(std::min<int64_t>(group_elements, end - first));
#pragma omp simd
      for (int i = 0; i < here; ++i) {
        const float value = static_cast<float>(in[first + i]) * factor[i];
        store(out[first + i], factor[i] == 0.0F ? 0.0F : value);
      }
    }
  });
}

template void run_dropout<float>(const Tensor&, const Tensor&, const math::StepScalars&,
                                 const math::DropoutSite&, const Tensor&);
template void run_dropout<bfloat16>(const Tensor&, const Tensor&, const math::StepScalars&,
                                    const math::DropoutSite&, const Tensor&);
template void run_dropout<float16>(const Tensor&, const Tensor&, const math::StepScalars&,
                                   const math::DropoutSite&, const Tensor&);

}  // namespace penstock::cpu
