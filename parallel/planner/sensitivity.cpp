#include "parallel/planner/sensitivity.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "parallel/planner/cut.h"
#include "parallel/schedule/catalogue.h"

namespace penstock::planner {

namespace {

constexpr double head_lighter = 0.75;
constexpr double links_faster = 2;

// All that the request fixes by stage goes with the number of stages.
void unfix_stages(PlanRequest& request) {
  request.recompute.fixed.clear();
  if (request.cut == CutBy::listed) request.cut = CutBy::measured;
  request.listed.clear();
}

PlanRequest one_chunk_more(const PlanRequest& request, const Plan& plan) {
  PlanRequest changed = request;
  unfix_stages(changed);
  changed.chunks = plan.chosen.chunks + 1;
  // Schedules whose chunks are given have no other: whichever has takes their place.
  const auto& kinds = schedule::schedule_kinds();
  if (std::any_of(kinds.begin(), kinds.end(), [&](const schedule::ScheduleKind& kind) {
        return kind.name == plan.chosen.schedule && kind.max_chunks == plan.chosen.chunks;
      })) {
    changed.schedule = "auto";
    changed.slack = -1;
  }
  return changed;
}

PlanRequest twice_the_micro_batches(const PlanRequest& request) {
  PlanRequest changed = request;
  for (Workload& workload : changed.workloads) workload.micro_batches *= 2;
  return changed;
}

PlanRequest faster_links(const PlanRequest& request) {
  PlanRequest changed = request;
  for (Edge& edge : changed.machine.links.edges) {
    edge.latency /= links_faster;
    edge.bandwidth *= links_faster;
  }
  return changed;
}

PlanRequest more_memory(const PlanRequest& request) {
  PlanRequest changed = request;
  for (int64_t& limit : changed.machine.memory_limit) limit += limit / 4;
  return changed;
}

PlanRequest lighter_head(const PlanRequest& request) {
  PlanRequest changed = request;
  for (Workload& workload : changed.workloads) {
    for (ModeCosts& mode : workload.model.units.back().modes) {
      mode.forward *= head_lighter;
      mode.recompute *= head_lighter;
      mode.backward_input *= head_lighter;
      mode.backward_weight *= head_lighter;
    }
  }
  return changed;
}

// The plan as it is, under what has changed.
PlanRequest kept(PlanRequest changed, const Plan& plan) {
  const Workload workload = changed.workloads[plan.chosen.workload];
  changed.workloads = {workload};
  changed.schedule = plan.chosen.schedule;
  changed.chunks = plan.chosen.chunks;
  changed.slack = plan.chosen.slack;
  changed.cut = CutBy::listed;
  changed.listed = plan.chosen.layout.units;
  changed.recompute.fixed = plan.chosen.layout.recompute;
  return changed;
}

bool better(const Prediction& a, const Prediction& b) {
  return a.fits != b.fits ? a.fits : a.tokens_per_second > b.tokens_per_second;
}

Sensitivity try_change(std::string name, const PlanRequest& changed, const Plan& plan) {
  Sensitivity row;
  row.change = std::move(name);
  try {
    row.chosen = make_plan(changed).chosen;
    if (changed.chunks == 0 || changed.chunks == plan.chosen.chunks) {
      Candidate same = make_plan(kept(changed, plan)).chosen;
      same.workload = plan.chosen.workload;
      if (better(same.prediction, row.chosen.prediction)) row.chosen = std::move(same);
    }
    row.seconds_per_token = 1 / row.chosen.prediction.tokens_per_second;
    row.gain = 1 - row.seconds_per_token * plan.chosen.prediction.tokens_per_second;
  } catch (const PlanError& error) {
    row.refusal = error.what();
  } catch (const PartitionError& error) {
    row.refusal = error.what();
  } catch (const schedule::ScheduleError& error) {
    row.refusal = error.what();
  }
  return row;
}

}  // namespace

std::vector<Sensitivity> sensitivities(const PlanRequest& request, const Plan& plan) {
  std::vector<Sensitivity> rows;
  rows.push_back(try_change("one chunk more", one_chunk_more(request, plan), plan));
  rows.push_back(try_change("twice the micro-batches", twice_the_micro_batches(request), plan));
  rows.push_back(try_change("links twice as fast", faster_links(request), plan));
  if (!request.machine.memory_limit.empty())
    rows.push_back(try_change("a quarter more memory", more_memory(request), plan));
  rows.push_back(try_change("a head a quarter lighter", lighter_head(request), plan));
  return rows;
}

std::vector<std::string> limits(const PlanRequest& request, const Plan& plan) {
  const StepParts& parts = plan.parts;
  const double step = plan.chosen.prediction.step;
  std::vector<std::pair<double, std::string>> found;
  const auto add = [&](double seconds, std::string text) {
    if (seconds >= 0.01 * step) found.emplace_back(seconds, std::move(text));
  };
  add(parts.imbalance,
      fmt::format("rank {} works {:.1f} % more than the mean", plan.chosen.prediction.slowest_rank,
                  100 * plan.chosen.prediction.imbalance));
  add(parts.schedule, fmt::format("{} fills, drains and waits", plan.chosen.schedule));
  add(parts.transfer, "messages between stages are waited for");
  add(parts.recompute, request.machine.memory_limit.empty() ? "stages recompute, as the job asks"
                                                            : "stages recompute to fit their memory");
  add(parts.tail, "reductions and the optimizer follow the last action");
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  words.reserve(found.size() + 1);
  for (const auto& [seconds, text] : found)
    words.push_back(fmt::format("{} ({:.1f} % of the step)", text, 100 * seconds / step));
  if (!plan.chosen.prediction.fits) words.insert(words.begin(), "memory: no plan fits the ranks' limits");
  return words;
}

}  // namespace penstock::planner
