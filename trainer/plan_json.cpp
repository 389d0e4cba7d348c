#include "trainer/plan_json.h"

#include "trainer/plan_figures.h"

namespace penstock {
namespace {

using nlohmann::ordered_json;
using planner::PlanRequest;
using planner::Prediction;

constexpr double to_ms = 1e3;

void add(const Prediction& prediction, ordered_json& json) {
  json["predicted_step_ms"] = to_ms * prediction.step;
  json["tokens_per_second"] = prediction.tokens_per_second;
  json["micro_batch_latency_ms"] = to_ms * prediction.micro_batch_latency;
  json["bubble_ratio"] = prediction.measures.bubble_ratio;
  json["bubble_ratio_rank_span"] = prediction.measures.bubble_ratio_rank_span;
  json["idle_ratio"] = prediction.idle_ratio;
  json["stage_imbalance"] = prediction.imbalance;
  json["memory_peak_bytes"] = prediction.peak_memory;
  json["fits"] = prediction.fits;
  json["simulated"] = prediction.simulated;
}

ordered_json modes_of(const planner::Layout& layout) {
  ordered_json modes = ordered_json::array();
  for (const planner::Recompute mode : layout.recompute) modes.push_back(planner::to_string(mode));
  return modes;
}

ordered_json stages_of(const planner::Plan& plan, const planner::ModelCosts& model) {
  ordered_json stages = ordered_json::array();
  for (const planner::StagePlan& stage : plan.stages) {
    stages.push_back({{"stage", stage.stage},
                      {"rank", stage.rank},
                      {"units", units_of(model, stage)},
                      {"first_unit", stage.first_unit},
                      {"unit_count", stage.units},
                      {"recompute", planner::to_string(stage.recompute)},
                      {"forward_ms", to_ms * stage.times.forward},
                      {"recompute_ms", to_ms * stage.recompute_time},
                      {"backward_input_ms", to_ms * (stage.times.backward_input - stage.recompute_time)},
                      {"backward_weight_ms", to_ms * stage.times.backward_weight},
                      {"forward_slots", stage.slots.forward},
                      {"kept_slots", stage.slots.kept},
                      {"weight_slots", stage.slots.weight},
                      {"resident_bytes", stage.resident_bytes},
                      {"slot_bytes", stage.slot_bytes},
                      {"recompute_full_saves_bytes", stage.full_saves}});
  }
  return stages;
}

ordered_json ranks_of(const Prediction& prediction) {
  ordered_json ranks = ordered_json::array();
  for (size_t r = 0; r < prediction.measures.ranks.size(); ++r) {
    const schedule::RankMeasures& rank = prediction.measures.ranks[r];
    ranks.push_back({{"rank", r},
                     {"busy_ms", to_ms * rank.busy},
                     {"idle_ms", to_ms * rank.idle},
                     {"fill_ms", to_ms * rank.causes.fill},
                     {"wait_ms", to_ms * rank.causes.wait},
                     {"transfer_ms", to_ms * rank.causes.transfer},
                     {"buffer_ms", to_ms * rank.causes.buffer},
                     {"drain_ms", to_ms * rank.causes.drain},
                     {"reduction_ms", to_ms * rank.causes.reduction},
                     {"device_bytes", prediction.memory[r].total()}});
  }
  return ranks;
}

}  // namespace

ordered_json to_json(const planner::Candidate& candidate, const PlanRequest& request) {
  const planner::Workload& workload = request.workloads[candidate.workload];
  ordered_json json{{"schedule", candidate.schedule},
                    {"chunks", candidate.chunks},
                    {"warmup_slack", candidate.slack},
                    {"micro_batch", workload.model.micro_batch},
                    {"micro_batches", workload.micro_batches}};
  if (!candidate.refusal.empty()) json["refused"] = candidate.refusal;
  if (candidate.prediction.step <= 0) return json;
  json["partition"] = candidate.layout.units;
  json["recompute"] = modes_of(candidate.layout);
  add(candidate.prediction, json);
  json["proved"] = candidate.proved;
  return json;
}

ordered_json to_json(const planner::Plan& plan, const PlanRequest& request) {
  const planner::ModelCosts& model = request.workloads[plan.chosen.workload].model;
  ordered_json json = to_json(plan.chosen, request);
  json["pipeline"] = request.machine.ranks;
  json["data"] = request.machine.replicas;
  const PlanFigures figures = figures_of(plan);
  json["slowest_stage"] = figures.slowest_stage;
  json["fill_ms"] = to_ms * figures.fill;
  json["drain_ms"] = to_ms * figures.drain;
  json["parts"] = {
      {"work_ms", to_ms * plan.parts.work},           {"recompute_ms", to_ms * plan.parts.recompute},
      {"imbalance_ms", to_ms * plan.parts.imbalance}, {"schedule_ms", to_ms * plan.parts.schedule},
      {"transfer_ms", to_ms * plan.parts.transfer},   {"tail_ms", to_ms * plan.parts.tail}};
  json["limits"] = planner::limits(request, plan);
  json["stages"] = stages_of(plan, model);
  json["ranks"] = ranks_of(plan.chosen.prediction);
  ordered_json cuts = ordered_json::array();
  for (const planner::OtherCut& cut : plan.cuts) {
    ordered_json row{{"partition", planner::to_string(cut.cut)}, {"units", cut.layout.units}};
    add(cut.prediction, row);
    cuts.push_back(std::move(row));
  }
  json["cuts"] = cuts;
  ordered_json schedules = ordered_json::array();
  for (const planner::Candidate& candidate : plan.schedules) schedules.push_back(to_json(candidate, request));
  json["schedules"] = schedules;
  return json;
}

ordered_json to_json(const std::vector<planner::Sensitivity>& rows) {
  ordered_json all = ordered_json::array();
  for (const planner::Sensitivity& row : rows) {
    ordered_json made{{"change", row.change}};
    if (row.refusal.empty()) {
      made["schedule"] = row.chosen.schedule;
      made["chunks"] = row.chosen.chunks;
      made["predicted_step_ms"] = to_ms * row.chosen.prediction.step;
      made["tokens_per_second"] = row.chosen.prediction.tokens_per_second;
      made["bubble_ratio"] = row.chosen.prediction.measures.bubble_ratio;
      made["fits"] = row.chosen.prediction.fits;
      made["gain"] = row.gain;
    } else {
      made["refused"] = row.refusal;
    }
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace penstock
