#include "parallel/planner/variants.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "parallel/schedule/catalogue.h"

namespace penstock::planner {

using schedule::ScheduleError;
using schedule::ScheduleKind;

namespace {

class Lister {
 public:
  explicit Lister(const PlanRequest& request) : request_(request) {}

  std::vector<Variant> list() {
    for (size_t workload = 0; workload < request_.workloads.size(); ++workload) {
      workload_ = workload;
      if (request_.schedule.rfind("file:", 0) == 0) {
        add(request_.schedule, request_.chunks, 0, false);
        continue;
      }
      if (request_.schedule != "auto") schedule::find_schedule_kind(request_.schedule);  // or its error
      for (const ScheduleKind& kind : schedule::schedule_kinds()) {
        if (request_.schedule == "auto" || request_.schedule == kind.name) add_kind(kind);
      }
    }
    std::stable_sort(tries_.begin(), tries_.end(), [](const Try& a, const Try& b) {
      return std::pair(a.actions, a.slack) < std::pair(b.actions, b.slack);
    });
    for (const Try& each : tries_) generate(each);
    return std::move(variants_);
  }

 private:
  struct Try {
    std::string schedule;
    int chunks = 0;
    int slack = 0;
    size_t workload = 0;
    /// Of several that differ in slack only the first one's refusal is heard.
    bool only_if_possible = false;
    double actions = 0;
  };

  int units() const { return static_cast<int>(request_.workloads[workload_].model.units.size()); }

  // One chunk of a schedule that takes several is another schedule: it is tried where it is asked for.
  std::vector<int> chunks_of(const ScheduleKind& kind) const {
    if (request_.chunks > 0) return {request_.chunks};
    std::vector<int> chunks;
    const int first = kind.max_chunks > 1 ? std::max(2, kind.min_chunks) : kind.min_chunks;
    for (int v = first; v <= std::min(kind.max_chunks, most_chunks); ++v) {
      if (request_.machine.ranks * v <= units()) chunks.push_back(v);
    }
    if (chunks.empty()) chunks.push_back(kind.default_chunks);
    return chunks;
  }

  void add_kind(const ScheduleKind& kind) {
    if (kind.versions > 1 && request_.schedule == "auto") {
      refuse({kind.name, kind.default_chunks, 0, workload_}, asynchronous_by_name_only);
      return;
    }
    if (kind.copies > 1 && request_.schedule == "auto") {
      refuse({kind.name, kind.default_chunks, 0, workload_}, by_name_only);
      return;
    }
    const int first = std::max(0, request_.slack);
    const int last = request_.slack >= 0 ? request_.slack : most_slack;
    for (const int chunks : chunks_of(kind)) {
      for (int slack = first; slack <= last; ++slack) add(kind.name, chunks, slack, slack > first);
    }
  }

  void add(const std::string& name, int chunks, int slack, bool only_if_possible) {
    const double actions =
        2.0 * request_.machine.ranks * std::max(1, chunks) * request_.workloads[workload_].micro_batches;
    tries_.push_back({name, chunks, slack, workload_, only_if_possible, actions});
  }

  void generate(const Try& each) {
    workload_ = each.workload;
    schedule::ScheduleOptions options;
    options.ranks = request_.machine.ranks;
    options.micro_batches = request_.workloads[workload_].micro_batches;
    options.chunks = each.chunks;
    options.warmup_slack = each.slack;
    const int stages = options.ranks * std::max(1, each.chunks);
    if (stages > units()) {
      refuse(each, fmt::format("{} stages of {} units: each stage holds at least one unit", stages, units()));
      return;
    }
    if (actions_ > 0 && actions_ + each.actions > most_actions) {
      refuse(each, fmt::format("not tried: {:.3g} actions a step; ask for it by name", each.actions));
      return;
    }
    try {
      schedule::Schedule made = schedule::generate(each.schedule, options);
      if (const std::string refusal = copies_refusal(made); !refusal.empty()) {
        refuse(each, refusal);
        return;
      }
      actions_ += each.actions;
      const int chunks = made.chunks;
      variants_.push_back({each.schedule, chunks, each.slack, workload_, "", options, std::move(made)});
    } catch (const ScheduleError& error) {
      refuse(each, error.what());
    }
  }

  void refuse(const Try& each, std::string reason) {
    if (each.only_if_possible) return;
    variants_.push_back({each.schedule, each.chunks, each.slack, each.workload, std::move(reason), {}, {}});
  }

  const PlanRequest& request_;
  size_t workload_ = 0;
  std::vector<Try> tries_;
  double actions_ = 0;
  std::vector<Variant> variants_;
};

}  // namespace

schedule::Schedule Variant::take_actions() {
  schedule::Schedule taken = actions ? std::move(*actions) : schedule::generate(schedule, options);
  actions.reset();
  return taken;
}

std::vector<Variant> list_variants(const PlanRequest& request) {
  return Lister(request).list();
}

}  // namespace penstock::planner
