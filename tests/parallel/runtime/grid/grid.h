#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/parallel/runtime/ranks.h"

/// What contract C1 calls equal, as a grid: every axis along which a run may differ without a bit of its
/// result changing, and the model and precision along which it does.
namespace penstock::testing {

/// A schedule and what it was asked for.
struct GridSchedule {
  std::string name;
  int chunks = 1;
  int slack = 0;
};
/// Every synchronous schedule of the catalogue with one copy; where chunks are free, with the two smallest
/// numbers from 2 on that it takes.
const std::vector<GridSchedule>& grid_schedules();

struct GridLayout {
  int pipeline = 1;
  int replicas = 1;
  int ranks() const { return pipeline * replicas; }
};
/// P ∈ {1, 2, 3, 4, 8} alone; P ∈ {1, 2, 3, 4} with 2 and 3 replicas.
const std::vector<GridLayout>& grid_layouts();

/// How stages are cut: evenly by layers; by a list whose stages have different numbers of units and end
/// within layers; a unit a stage (so that, with one chunk, there are more ranks than layers).
enum class Cut { even, uneven, single };
enum class Micro { few, many };  ///< the fewest that the schedule takes; more than 2P
/// A mode for all stages, or another one a stage.
enum class Recompute { none, selective, full, mixed };

/// A place in the grid: an index a axis, in this order.
struct Axis {
  enum {
    schedule,
    layout,
    recompute,
    compute,
    family,
    cut,
    micro,
    threads,
    streams,
    buffering,
    order,
    windows,
    sharded,
    count
  };
};
using Point = std::array<int, Axis::count>;
/// How many values an axis has.
const Point& grid_sizes();

const GridSchedule& schedule_of(const Point& point);
const GridLayout& layout_of(const Point& point);
std::string name_of(const Point& point);
/// The job at a place; `steps` steps.
Job job_of(const Point& point, int steps);
/// What it must be equal to: one rank, or its replicas without a pipeline, with the same reduce_every.
Job reference_of(const Job& job);

/// Points whose layout is allowed, such that any two values of any two axes meet in one of them.
std::vector<Point> pairwise_points(const std::function<bool(const GridLayout&)>& allowed);
/// All of the first five axes, with `every_cut` of cuts, and with replicas of optimizers sharded or not,
/// where the layout is allowed; the others are drawn, reproducibly.
std::vector<Point> all_points(const std::function<bool(const GridLayout&)>& allowed, bool every_cut);

/// Results of references, each computed once.
class References {
 public:
  /// `compute`: instead of running it here.
  explicit References(std::function<Result(const Job&)> compute) : compute_(std::move(compute)) {}
  const Result& of(const Job& job);

 private:
  std::function<Result(const Job&)> compute_;
  std::map<std::string, Result> known_;
};
/// Runs a reference in this process.
Result run_reference(const Job& reference);

/// Fails with what of a rank's result differs in any bit from the whole model's.
void expect_part_of(const Result& mine, const Result& whole);

}  // namespace penstock::testing
