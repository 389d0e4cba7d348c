#include "parallel/planner/sensitivity.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "parallel/planner/cut.h"

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
  // Schedules of one chunk have no second one: whichever has takes their place.
  if (plan.chosen.chunks == 1) changed.schedule = "auto";
  if (plan.chosen.chunks == 1) changed.slack = -1;
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

Sensitivity try_change(std::string name, const PlanRequest& changed, const Plan& plan) {
  Sensitivity row;
  row.change = std::move(name);
  try {
    Plan other = make_plan(changed);
    row.chosen = std::move(other.chosen);
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
