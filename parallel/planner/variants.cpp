#include "parallel/planner/variants.h"

#include <algorithm>

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
        add(request_.schedule, request_.chunks, 0);
        continue;
      }
      if (request_.schedule != "auto") schedule::find_schedule_kind(request_.schedule);  // or its error
      for (const ScheduleKind& kind : schedule::schedule_kinds()) {
        if (request_.schedule == "auto" || request_.schedule == kind.name) add_kind(kind);
      }
    }
    return std::move(variants_);
  }

 private:
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
    if (kind.copies > 1 || kind.versions > 1) {
      refuse(kind.name, kind.default_chunks,
             kind.copies > 1 ? "runs two copies of the model: ranks run one"
                             : "is asynchronous: ranks run synchronous schedules");
      return;
    }
    for (const int chunks : chunks_of(kind)) {
      const int first = std::max(0, request_.slack);
      const int last = request_.slack >= 0 ? request_.slack : most_slack;
      for (int slack = first; slack <= last; ++slack) {
        // The first is tried in any case, so that its refusal is heard; of the rest only what can be had.
        if (!add(kind.name, chunks, slack, slack > first)) break;
      }
    }
  }

  bool add(const std::string& name, int chunks, int slack, bool only_if_possible = false) {
    schedule::ScheduleOptions options;
    options.ranks = request_.machine.ranks;
    options.micro_batches = request_.workloads[workload_].micro_batches;
    options.chunks = chunks;
    options.warmup_slack = slack;
    const int stages = options.ranks * std::max(1, chunks);
    if (stages > units()) {
      if (!only_if_possible) {
        refuse(name, chunks,
               fmt::format("{} stages of {} units: each stage holds at least one unit", stages, units()));
      }
      return false;
    }
    try {
      Variant variant{name, chunks, slack, workload_, "", schedule::generate(name, options)};
      variant.chunks = variant.actions.chunks;
      if (variant.actions.copies > 1 || variant.actions.asynchronous) {
        refuse(name, chunks, "ranks run synchronous schedules with one copy of the model");
        return false;
      }
      variants_.push_back(std::move(variant));
      return true;
    } catch (const ScheduleError& error) {
      if (!only_if_possible) refuse(name, chunks, error.what());
      return false;
    }
  }

  void refuse(const std::string& name, int chunks, std::string reason) {
    variants_.push_back({name, chunks, std::max(0, request_.slack), workload_, std::move(reason), {}});
  }

  const PlanRequest& request_;
  size_t workload_ = 0;
  std::vector<Variant> variants_;
};

}  // namespace

std::vector<Variant> list_variants(const PlanRequest& request) {
  return Lister(request).list();
}

}  // namespace penstock::planner
