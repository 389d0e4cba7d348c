#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoint_reader.h"

namespace penstock::checkpoint {

/// How a tensor that two checkpoints have, with one shape and type, differs between them.
struct ValueDifference {
  std::string name;
  Shape shape;
  int64_t differing = 0;  ///< elements whose bits differ
  int64_t first = 0;      ///< the first of them, counted in the flattened tensor
  /// Largest |a − b| and |a − b| / max(|a|, |b|) over them; infinity where one is NaN or infinite.
  double absolute = 0;
  double relative = 0;
};

/// Something that is not the same thing in both: a tensor of another shape or type, or missing in one; an
/// entry of the state.
struct OtherDifference {
  std::string name;
  std::string a;  ///< "fp32 (6, 7)", "missing", "10"
  std::string b;
};

struct Comparison {
  size_t tensors = 0;  ///< whose values were compared
  uint64_t bytes = 0;  ///< of each checkpoint that were compared
  std::vector<ValueDifference> values;
  std::vector<OtherDifference> others;
  std::vector<OtherDifference> state;  ///< "step" and "samples" included
  /// State that says how a run is arranged on its ranks, by the times that were measured: no bit of the model
  /// follows from it, and two equal runs may differ in it.
  std::vector<OtherDifference> arrangement;

  /// All that decides what the model becomes.
  bool identical() const { return values.empty() && others.empty() && state.empty(); }
};

/// The entries of Manifest::state that Comparison::arrangement is about.
bool is_of_arrangement(std::string_view name);

/// Compares all that continues a run: tensors by name, bit by bit, however they are spread over shards, and
/// the state. Not the job, which says where and how a run computes. Reads in blocks: memory does not grow
/// with the checkpoints.
Comparison compare(const Checkpoint& a, const Checkpoint& b);

/// "(3, 17)": where an element of the flattened tensor stands; "()" in one of rank 0.
std::string index_text(const Shape& shape, int64_t element);

}  // namespace penstock::checkpoint
