#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/planner/plan.h"
#include "parallel/schedule/schedule.h"

namespace penstock::planner {

/// A schedule that a request allows, with everything that decides its actions.
struct Variant {
  std::string schedule;
  int chunks = 1;
  int slack = 0;
  size_t workload = 0;
  std::string refusal;  ///< "" or why it cannot be run here
  schedule::ScheduleOptions options;
  std::optional<schedule::Schedule> actions;  ///< until they are taken

  int stages() const { return options.ranks * chunks; }
  /// Its actions, if it can be run: those that are there, or made again.
  schedule::Schedule take_actions();
};

/// All of them: each schedule of the catalogue (or the one asked for) with the numbers of chunks, slacks and
/// micro-batch sizes that are open. Two copies of the weights are taken only where they are asked for: they
/// add gradients in another order, and a schedule that is chosen must not change a bit of the result. Chunks
/// are tried up to `most_chunks` and as units last. Schedules of very many actions are tried until they are
/// `most_actions` together, the shorter ones first.
inline constexpr const char* by_name_only = "two copies of the weights: taken by name only";
/// Why one whose steps overlap is not.
inline constexpr const char* asynchronous_by_name_only =
    "asynchronous, gradients one update old: taken by name only";
std::vector<Variant> list_variants(const PlanRequest& request);
inline constexpr int most_chunks = 8;
inline constexpr double most_actions = 4e7;
/// Warm-up slacks that are tried: up to this.
inline constexpr int most_slack = 2;

}  // namespace penstock::planner
