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
/// Every schedule of the catalogue; where chunks are free, with the two smallest numbers from 2 on that it
/// takes.
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
    wire,  ///< of what crosses from stage to stage: as `compute`, bf16, fp16
    sums,  ///< of gradients on their way to be summed: fp32, bf16, fp16
    count
  };
};
using Point = std::array<int, Axis::count>;
/// Parts of the grid, by what a point must be equal to.
enum class Kind {
  one_copy,      ///< synchronous schedules: one rank, or its replicas without a pipeline
  two_copies,    ///< twice the replicas, without a pipeline
  two_versions,  ///< one process that simulates the delay
  narrow_wires,  ///< a rank (and its replicas) that holds all stages, cut in the same places
};
/// The values of each axis there: all that mean something. Schedules by their place in grid_schedules(),
/// layouts by theirs in grid_layouts().
std::vector<std::vector<int>> grid_values(Kind kind);

const GridSchedule& schedule_of(const Point& point);
const GridLayout& layout_of(const Point& point);
std::string name_of(const Point& point);
/// The job at a place; `steps` steps.
Job job_of(const Point& point, int steps);
/// What it must be equal to (Kind), with the same reduce_every and its optimizers not sharded.
Job reference_of(const Job& job);
/// How a rank trains it: steps of an asynchronous schedule overlap, but for the first where there are more
/// than two.
RankTraining training_of(const Job& job);

using Allowed = std::function<bool(const GridLayout&)>;
/// Points whose layout is allowed, such that any two values of any two axes meet in one of them.
std::vector<Point> pairwise_points(Kind kind, const Allowed& allowed);
/// Of one copy: all of the first five axes, with `every_cut` of cuts, and with replicas of optimizers sharded
/// or not, where the layout is allowed; the others are drawn, reproducibly.
std::vector<Point> all_points(const Allowed& allowed, bool every_cut);

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
