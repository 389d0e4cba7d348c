#include "trainer/plan_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parallel/schedule/catalogue.h"
#include "trainer/plan_figures.h"

namespace penstock {
namespace {

using planner::Candidate;
using planner::Plan;
using planner::Prediction;
using planner::StagePlan;

constexpr size_t reason_width = 78;

// Seven or eight characters.
std::string ms(double seconds) {
  const double ms = 1e3 * seconds;
  return fmt::format("{:.{}f}", ms, ms < 1e3 ? 3 : ms < 1e5 ? 1 : 0);
}

// Of the rank that has least left, where there are limits, else of the one that holds most.
std::string fullest_text(const Prediction& prediction, const planner::Machine& machine) {
  int rank = 0;
  double fullest = 0;
  for (size_t r = 0; r < prediction.memory.size(); ++r) {
    const double full = static_cast<double>(prediction.memory[r].total()) /
                        static_cast<double>(machine.limit_of(static_cast<int>(r)));
    if (full > fullest) rank = static_cast<int>(r);
    fullest = std::max(fullest, full);
  }
  std::string text =
      fmt::format("{} on rank {}", bytes_text(prediction.memory[static_cast<size_t>(rank)].total()), rank);
  if (!machine.memory_limit.empty())
    text += fmt::format(" of {} that it may use{}", bytes_text(machine.limit_of(rank)),
                        prediction.fits ? "" : ": it does not fit");
  return text;
}

std::string shortened(const std::string& reason) {
  return reason.size() > reason_width ? reason.substr(0, reason_width - 1) + "…" : reason;
}

// "units 9 8 8 9", or of many stages "128 stages of 1 to 2 units".
std::string stages_text(const std::vector<int>& units) {
  constexpr size_t most_listed = 16;
  if (units.size() <= most_listed) return fmt::format("units {}", fmt::join(units, " "));
  const auto [least, most] = std::minmax_element(units.begin(), units.end());
  return fmt::format("{} stages of {} to {} units", units.size(), *least, *most);
}

bool same(const Candidate& a, const Candidate& b) {
  return a.schedule == b.schedule && a.chunks == b.chunks && a.slack == b.slack && a.workload == b.workload;
}

std::string row(const Prediction& prediction, double best) {
  const double against = 100 * (prediction.step / best - 1);
  return fmt::format("{:>11}{:>9.1f} %{:>9.2f} %{:>9.2f} %{:>9.2f} %{:>13}{}\n", ms(prediction.step),
                     std::abs(against) < 0.05 ? 0.0 : against, 100 * prediction.measures.bubble_ratio,
                     100 * prediction.idle_ratio, 100 * prediction.imbalance,
                     prediction.memory.empty() ? "–" : bytes_text(prediction.peak_memory),
                     prediction.fits ? "" : "  does not fit");
}

std::string head(const char* first) {
  return fmt::format("  {:<26}{:>11}{:>11}{:>11}{:>11}{:>11}{:>13}\n", first, "step ms", "against", "bubble",
                     "idle", "imbalance", "memory");
}

}  // namespace

std::string name_of(const Candidate& candidate) {
  std::string name = candidate.schedule;
  const bool one = std::any_of(schedule::schedule_kinds().begin(), schedule::schedule_kinds().end(),
                               [&](const auto& kind) {
                                 return kind.name == candidate.schedule && kind.min_chunks == kind.max_chunks;
                               });
  if (!one && candidate.chunks > 0)
    name += fmt::format(", {} chunk{}", candidate.chunks, candidate.chunks == 1 ? "" : "s");
  if (candidate.slack > 0) name += fmt::format(", slack {}", candidate.slack);
  return name;
}

std::string plan_line(const Plan& plan) {
  const Prediction& prediction = plan.chosen.prediction;
  return fmt::format(
      "{}, {} micro-batches, {}: predicted step {}, bubble {:.1f} %, imbalance {:.1f} %, {} on the "
      "fullest rank",
      name_of(plan.chosen), plan.micro_batches, stages_text(plan.chosen.layout.units),
      time_text(prediction.step), 100 * prediction.measures.bubble_ratio, 100 * prediction.imbalance,
      bytes_text(prediction.peak_memory));
}

std::string stage_map(const Plan& plan, const planner::PlanRequest& request) {
  const planner::ModelCosts& model = request.workloads[plan.chosen.workload].model;
  const Prediction& prediction = plan.chosen.prediction;
  size_t width = 5;
  std::vector<StagePlan> stages = plan.stages;
  std::stable_sort(stages.begin(), stages.end(),
                   [](const StagePlan& a, const StagePlan& b) { return a.rank < b.rank; });
  for (const StagePlan& stage : stages) width = std::max(width, units_of(model, stage).size());
  double mean = 0;
  for (const schedule::RankMeasures& rank : prediction.measures.ranks)
    mean += rank.busy / static_cast<double>(prediction.measures.ranks.size());
  std::string text = fmt::format("{:>5}{:>6}  {:<{}}  {:<9}{:>9}{:>9}{:>9}{:>9}{:>11}{:>9}{:>7}{:>13}\n",
                                 "rank", "stage", "units", width, "recompute", "F ms", "R ms", "I ms", "W ms",
                                 "busy ms", "to mean", "slots", "rank memory");
  int rank = -1;
  for (const StagePlan& stage : stages) {
    const bool first = std::exchange(rank, stage.rank) != stage.rank;
    text +=
        fmt::format("{:>5}{:>6}  {:<{}}  {:<9}{:>9}{:>9}{:>9}{:>9}", first ? std::to_string(rank) : "",
                    stage.stage, units_of(model, stage), width, planner::to_string(stage.recompute),
                    ms(stage.times.forward), ms(stage.recompute_time),
                    ms(stage.times.backward_input - stage.recompute_time), ms(stage.times.backward_weight));
    const auto r = static_cast<size_t>(rank);
    if (first) {
      text += fmt::format("{:>11}{:>+7.1f} %{:>7}{:>13}\n", ms(prediction.measures.ranks[r].busy),
                          100 * (prediction.measures.ranks[r].busy / mean - 1), stage.slots.kept,
                          bytes_text(prediction.memory[r].total()));
    } else {
      text += fmt::format("{:>11}{:>9}{:>7}\n", "", "", stage.slots.kept);
    }
  }
  return text;
}

std::string step_table(const Plan& plan, const planner::Machine& machine) {
  const Prediction& prediction = plan.chosen.prediction;
  const PlanFigures figures = figures_of(plan);
  std::string text = fmt::format("predicted step        {}{}\n", time_text(prediction.step),
                                 prediction.simulated ? "" : "  (by the step's graph; too long to simulate)");
  text += fmt::format("tokens a second       {:.5g}\n", prediction.tokens_per_second);
  text += fmt::format("micro-batch latency   {}\n", time_text(prediction.micro_batch_latency));
  text += fmt::format("bubble                {:.2f} % (rank-span {:.2f} %); idle in all {:.2f} %\n",
                      100 * prediction.measures.bubble_ratio,
                      100 * prediction.measures.bubble_ratio_rank_span, 100 * prediction.idle_ratio);
  text += fmt::format("imbalance             {:.2f} %: rank {} computes that much longer than the mean\n",
                      100 * prediction.imbalance, prediction.slowest_rank);
  text += fmt::format("fullest rank          {}\n", fullest_text(prediction, machine));
  const std::array<std::pair<const char*, double>, 6> causes{{{"fill", figures.idle.fill},
                                                              {"wait", figures.idle.wait},
                                                              {"transfer", figures.idle.transfer},
                                                              {"buffer", figures.idle.buffer},
                                                              {"drain", figures.idle.drain},
                                                              {"reduction", figures.idle.reduction}}};
  text += "idle of a rank (mean) ";
  for (size_t i = 0; i < causes.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", causes[i].first, time_text(causes[i].second));
  return text + "\n";
}

std::string misfit_text(const Prediction& prediction, const planner::Machine& machine) {
  constexpr int most = 8;
  std::string text;
  int misfits = 0;
  for (size_t rank = 0; rank < prediction.memory.size(); ++rank) {
    const int64_t total = prediction.memory[rank].total();
    const int64_t limit = machine.limit_of(static_cast<int>(rank));
    if (total <= limit || ++misfits > most) continue;
    text += fmt::format("  rank {} needs {} ({} bytes) in its arenas, {} more than the {} that it may use\n",
                        rank, bytes_text(total), total, bytes_text(total - limit), bytes_text(limit));
  }
  if (misfits > most) text += fmt::format("  and {} more ranks\n", misfits - most);
  return text;
}

std::string schedule_table(const std::vector<Candidate>& schedules, const Candidate& chosen,
                           const planner::PlanRequest& request) {
  std::string text = head("schedule");
  std::vector<std::string> said;
  for (const Candidate& candidate : schedules) {
    const bool ours = same(candidate, chosen);
    const bool again = std::find(said.begin(), said.end(), candidate.schedule) != said.end();
    if (again && !ours) continue;
    said.push_back(candidate.schedule);
    std::string name = name_of(candidate);
    if (request.workloads.size() > 1)
      name += fmt::format(", micro {}", request.workloads[candidate.workload].model.micro_batch);
    if (candidate.prediction.step > 0) {
      text += fmt::format("{} {:<26}{}", ours ? '>' : ' ', name,
                          row(candidate.prediction, chosen.prediction.step));
      if (!candidate.refusal.empty()) text.insert(text.size() - 1, "  " + candidate.refusal);
    } else {
      std::string reason = candidate.refusal;
      const std::string prefix = fmt::format("schedule {}: ", candidate.schedule);
      if (reason.rfind(prefix, 0) == 0) reason.erase(0, prefix.size());
      text += fmt::format("  {:<26}   {}\n", candidate.schedule, shortened(reason));
    }
  }
  return text;
}

std::string cut_table(const Plan& plan) {
  std::string text = head("cut by");
  text += fmt::format("> {:<26}{}", "this plan", row(plan.chosen.prediction, plan.chosen.prediction.step));
  for (const planner::OtherCut& cut : plan.cuts)
    text += fmt::format("  {:<26}{}", planner::to_string(cut.cut),
                        row(cut.prediction, plan.chosen.prediction.step));
  return text;
}

std::string sensitivity_table(const std::vector<planner::Sensitivity>& rows) {
  std::string text = fmt::format("  {:<26}{:>11}{:>12}{:>11}{:>11}  {}\n", "with", "step ms", "tokens/s",
                                 "a token", "bubble", "schedule");
  for (const planner::Sensitivity& row : rows) {
    if (!row.refusal.empty()) {
      const std::string reason = row.refusal.substr(row.refusal.find_last_of('\n') + 1);
      text += fmt::format("  {:<26}   {}\n", row.change, shortened(reason));
      continue;
    }
    const Prediction& prediction = row.chosen.prediction;
    text += fmt::format(
        "  {:<26}{:>11}{:>12.5g}{:>+9.1f} %{:>9.2f} %  {}{}\n", row.change, ms(prediction.step),
        prediction.tokens_per_second, std::abs(row.gain) < 5e-4 ? 0.0 : -100 * row.gain,
        100 * prediction.measures.bubble_ratio, name_of(row.chosen), prediction.fits ? "" : "; does not fit");
  }
  return text;
}

}  // namespace penstock
