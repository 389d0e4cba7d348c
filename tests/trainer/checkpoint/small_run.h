#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace penstock::checkpoint {

/// A run of two ranks with a few tensors whose values depend on the step: rank 0 holds `embedding` and the
/// first half of `weight`, rank 1 the second half, `steps` and `norm`.
class SmallRun {
 public:
  explicit SmallRun(int64_t step);

  std::vector<Source> sources(int rank) const;
  Manifest manifest() const;
  /// begin, write on both ranks, commit.
  void save(const CheckpointWriter& writer) const;
  /// Why `checkpoint` is not bitwise this run at this step, or "".
  std::string difference(const Checkpoint& checkpoint) const;

 private:
  int64_t step_;
  std::vector<uint16_t> embedding_;  // bf16 (5, 3)
  std::vector<float> weight_;        // fp32 (6, 7)
  std::vector<int64_t> steps_;       // i64 (2)
  std::vector<float> norm_;          // fp32 ()
};

}  // namespace penstock::checkpoint
