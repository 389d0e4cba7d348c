#include "model/shards.h"

#include <algorithm>

#include "kernels/math/reduce.h"

namespace penstock::model {

std::vector<ShardRun> shard_runs(const std::vector<ParameterSpec>& specs) {
  std::vector<ShardRun> runs;
  for (const bool weight_half : {false, true}) {
    bool closed = true;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].in_weight_half != weight_half) continue;
      const bool vocabulary = specs[i].vocab_rows >= 0;
      if (closed || vocabulary || specs[runs.back().back()].compute_copy != specs[i].compute_copy)
        runs.emplace_back();
      runs.back().push_back(i);
      closed = vocabulary;
    }
  }
  return runs;
}

std::vector<Slice> shard_slices(const std::vector<ParameterSpec>& specs, const Shard& shard) {
  std::vector<Slice> slices(specs.size());
  if (shard.count == 1) {
    for (size_t i = 0; i < specs.size(); ++i) slices[i] = specs[i].slice;
    return slices;
  }
  for (const ShardRun& run : shard_runs(specs)) {
    int64_t total = 0;
    for (const size_t i : run) total += specs[i].slice.elements();
    int64_t before = 0;
    for (const size_t i : run) {
      const int64_t elements = specs[i].slice.elements();
      Slice& slice = slices[i];
      for (int64_t begin = 0; begin < elements; begin += math::norm_block) {
        const int64_t end = std::min(elements, begin + math::norm_block);
        if ((2 * before + begin + end) * shard.count / (2 * total) != shard.member) continue;
        if (slice.elements() == 0) slice.begin = begin;
        slice.end = end;
      }
      before += elements;
    }
  }
  return slices;
}

Slice shard_stretch(const ShardRun& run, const std::vector<Slice>& slices, const std::vector<size_t>& offsets,
                    size_t size) {
  Slice stretch;
  for (const size_t i : run) {
    if (slices[i].elements() == 0) continue;
    const auto offset = static_cast<int64_t>(offsets[i] / size);
    if (stretch.elements() == 0) stretch.begin = offset + slices[i].begin;
    stretch.end = offset + slices[i].end;
  }
  return stretch;
}

}  // namespace penstock::model
