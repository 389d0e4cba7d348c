#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace penstock::model {

/// Elements [begin, end) of a parameter in its global, row-major order: what one rank holds of it. Every
/// place that stores, moves or reduces a parameter names it by (global name, slice).
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t elements() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

/// Among whom a gradient is summed: all replicas, those that share an expert, or nobody because each computes
/// the same.
enum class ReductionGroup : uint8_t { dense, expert, replicated };

namespace layout {

/// A part of a parameter that a rank holds.
struct Held {
  std::string name;  ///< global
  Slice slice;
  int rank = 0;
  bool operator==(const Held&) const = default;
};

/// Who holds what, in any order. Several ranks may hold the same elements (replicas, tied weights), one rank
/// no element twice. It says nothing of stages or schedules: any two layouts of one model can be compared.
using Layout = std::vector<Held>;

/// Elements that go from one rank to another; source = destination: they are there already.
struct Move {
  std::string name;
  Slice slice;
  int source = 0;
  int destination = 0;
  bool operator==(const Move&) const = default;
};

/// A layout that cannot be made from another, or that is none; the message names parameter, elements, rank.
class LayoutError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What makes `to` of `from`: every element that a rank holds in `to` is moved to it exactly once, from a
/// rank that holds it in `from`: from itself where it does, else from the holder that has least to send so
/// far. In the order of (name, first element, destination), whatever the order of the layouts. Every element
/// counts the same; values that belong to a parameter (moments, gradients) move as it does.
///
/// LayoutError for elements that nobody holds in `from`, and where a rank holds one twice.
std::vector<Move> moves(const Layout& from, const Layout& to);

}  // namespace layout
}  // namespace penstock::model
