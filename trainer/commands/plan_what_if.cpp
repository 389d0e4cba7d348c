#include "trainer/commands/plan_what_if.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "parallel/planner/cut.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/schedule.h"
#include "trainer/plan_text.h"

namespace penstock::commands {

namespace {

using planner::CutBy;
using planner::PlanRequest;

constexpr planner::SearchBudget budget{3e6, 5e3};
constexpr double more_memory = 1.25;

const schedule::ScheduleKind* kind_of(const std::string& name) {
  const auto& kinds = schedule::schedule_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

class Asker {
 public:
  Asker(const planner::Plan& plan, const PlanRequest& request) : plan_(plan), base_(request) {
    base_.workloads = {request.workloads[plan.chosen.workload]};
    base_.schedule = plan.chosen.schedule;
    base_.chunks = plan.chosen.chunks;
    base_.slack = plan.chosen.slack;
    base_.budget = budget;
  }

  const PlanRequest& base() const { return base_; }
  planner::ModelCosts& model(PlanRequest& request) const { return request.workloads[0].model; }

  void ask(std::string what, const PlanRequest& request) {
    WhatIf row;
    row.what = std::move(what);
    try {
      row.candidate = planner::make_plan(request).chosen;
      row.tokens_per_second = row.candidate->prediction.tokens_per_second;
      row.gain = row.tokens_per_second / plan_.chosen.prediction.tokens_per_second - 1;
    } catch (const planner::PlanError& error) {
      row.refusal = error.what();
    } catch (const planner::PartitionError& error) {
      row.refusal = error.what();
    } catch (const schedule::ScheduleError& error) {
      row.refusal = error.what();
    }
    rows_.push_back(std::move(row));
  }

  void ask_more_chunks() {
    const schedule::ScheduleKind* kind = kind_of(base_.schedule);
    if (kind == nullptr) return;  // a file is what it is
    PlanRequest more = base_;
    if (kind->min_chunks == kind->max_chunks) more.schedule = "interleaved";
    if (more.schedule != base_.schedule) more.slack = 0;
    more.chunks = base_.chunks + (base_.schedule == "hanayo" ? 2 : 1);
    if (more.cut == CutBy::listed) more.cut = CutBy::measured;
    if (!more.recompute.fixed.empty()) more.recompute = {};
    ask(fmt::format("{} with {} chunks", more.schedule, more.chunks), more);
  }

  void ask_double_micro_batches() {
    PlanRequest more = base_;
    more.workloads[0].micro_batches *= 2;
    ask(fmt::format("twice the batch: M = {}", more.workloads[0].micro_batches), more);
  }

  void ask_sizes(const CostsAtSize& costs_at) {
    const planner::Workload& own = base_.workloads[0];
    const int64_t sequences = own.model.micro_batch * own.micro_batches;
    for (const int64_t size : {own.model.micro_batch / 2, own.model.micro_batch * 2}) {
      if (size < 1 || sequences % size != 0) continue;
      const std::optional<planner::ModelCosts> costs = costs_at(size);
      if (!costs) continue;
      PlanRequest other = base_;
      other.workloads = {{*costs, static_cast<int>(sequences / size)}};
      ask(fmt::format("batch.micro = {}: M = {}", size, sequences / size), other);
    }
  }

  void ask_links() {
    PlanRequest faster = base_;
    bool any = false;
    for (planner::Edge& edge : faster.machine.links.edges) {
      any = any || edge.latency > 0 || edge.bandwidth < std::numeric_limits<double>::infinity();
      edge.latency /= 2;
      edge.bandwidth *= 2;
    }
    if (any) ask("links twice as fast", faster);
  }

  void ask_memory() {
    if (base_.machine.memory_limit.empty()) return;
    PlanRequest more = base_;
    for (int64_t& limit : more.machine.memory_limit)
      limit = static_cast<int64_t>(more_memory * static_cast<double>(limit));
    ask("a quarter more memory", more);
  }

  void ask_light_head() {
    PlanRequest lighter = base_;
    for (planner::ModeCosts& mode : model(lighter).units.back().modes) {
      mode.forward /= 2;
      mode.backward_input /= 2;
      mode.backward_weight /= 2;
    }
    ask("a head of half the cost", lighter);
  }

  std::vector<WhatIf> take() { return std::move(rows_); }

 private:
  const planner::Plan& plan_;
  PlanRequest base_;
  std::vector<WhatIf> rows_;
};

std::string short_reason(const std::string& reason) {
  const std::string line = reason.substr(reason.find_last_of('\n') + 1);
  return line.size() > 70 ? line.substr(0, 69) + "…" : line;
}

}  // namespace

std::vector<WhatIf> what_if(const planner::Plan& plan, const PlanRequest& request,
                            const CostsAtSize& costs_at) {
  Asker asker(plan, request);
  asker.ask_more_chunks();
  asker.ask_double_micro_batches();
  asker.ask_sizes(costs_at);
  asker.ask_links();
  asker.ask_memory();
  asker.ask_light_head();
  return asker.take();
}

std::string table(const std::vector<WhatIf>& rows) {
  std::string text =
      fmt::format("  {:<28}{:>11}{:>14}{:>11}{:>11}\n", "with", "step ms", "tokens/s", "gain", "bubble");
  for (const WhatIf& row : rows) {
    if (!row.candidate) {
      text += fmt::format("  {:<28}   {}\n", row.what, short_reason(row.refusal));
      continue;
    }
    const planner::Prediction& prediction = row.candidate->prediction;
    text += fmt::format("  {:<28}{:>11.3f}{:>14.5g}{:>+9.1f} %{:>9.2f} %{}\n", row.what,
                        1e3 * prediction.step, row.tokens_per_second, 100 * row.gain,
                        100 * prediction.measures.bubble_ratio, prediction.fits ? "" : "  does not fit");
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<WhatIf>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const WhatIf& row : rows) {
    nlohmann::ordered_json made{{"what", row.what}};
    if (row.candidate) {
      made["predicted_step_ms"] = 1e3 * row.candidate->prediction.step;
      made["tokens_per_second"] = row.tokens_per_second;
      made["gain"] = row.gain;
      made["bubble_ratio"] = row.candidate->prediction.measures.bubble_ratio;
      made["fits"] = row.candidate->prediction.fits;
    } else {
      made["refused"] = row.refusal;
    }
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace penstock::commands
