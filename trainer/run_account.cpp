#include "trainer/run_account.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "trainer/accounting/median.h"
#include "trainer/advice/advice.h"
#include "trainer/run_question.h"

namespace penstock {

using accounting::Part;
using accounting::PartSeconds;

namespace {

PartSeconds mean_over_ranks(std::span<const accounting::StepAccount> accounts) {
  PartSeconds mean;
  double ranks = 0;
  for (const accounting::StepAccount& account : accounts) ranks += static_cast<double>(account.ranks.size());
  for (const accounting::StepAccount& account : accounts) {
    for (const accounting::RankAccount& rank : account.ranks) {
      for (size_t part = 0; part < accounting::part_count; ++part)
        mean[static_cast<Part>(part)] += rank.parts[static_cast<Part>(part)] / ranks;
    }
  }
  return mean;
}

// The largest differences, those above 1 % of the step: "host +5.1 ms, transfer -2.0 ms".
std::string differences(const PartSeconds& measured, const PartSeconds& predicted, double step) {
  std::vector<Part> parts;
  const auto difference = [&](Part part) { return measured[part] - predicted[part]; };
  for (size_t at = 0; at < accounting::part_count; ++at) {
    const auto part = static_cast<Part>(at);
    if (!accounting::is_pause(part) && std::abs(difference(part)) > 0.01 * step) parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end(),
            [&](Part a, Part b) { return std::abs(difference(a)) > std::abs(difference(b)); });
  std::string text;
  for (size_t at = 0; at < std::min<size_t>(parts.size(), 4); ++at) {
    text += fmt::format("{}{} {:+.3g} ms", at == 0 ? "" : ", ", accounting::name_of(parts[at]),
                        1e3 * difference(parts[at]));
  }
  return text;
}

}  // namespace

RunAccount::RunAccount(const runtime::PipelinePlan& plan, const Job& job, JobCosts costs,
                       const ProcessorShare& share)
    : plan_(&plan),
      units_(plan, job, std::move(costs)),
      costs_(plan.training, measured_steps),
      share_(share) {
  const JobCosts& given = units_.given();
  if (!given.measured || given.threads_per_processor > 1 || share.crowded()) return;
  planned_ = predict(units_.costs());
  prediction_ = planned_;
}

void RunAccount::rearranged(const runtime::PipelinePlan& plan, const Job& job) {
  plan_ = &plan;
  units_.rearranged(plan, job);
  costs_ = accounting::MeasuredCosts(plan.training, measured_steps);
  planned_.reset();
  prediction_.reset();
  own_costs_ = false;
  steps_.clear();
  seen_ = 0;
}

// Of steps that overlap one alone takes longer.
accounting::Prediction RunAccount::predict(const schedule::Costs& costs) const {
  return plan_->overlaps() ? accounting::predict(plan_->training, *plan_->rolling, costs)
                           : accounting::predict(plan_->training, costs);
}

// Means of the actions, which the step is made of; medians of what else there is, which waits may hide in.
void RunAccount::predict_by_own_costs() {
  schedule::Costs costs = units_.costs();
  const schedule::Costs measured = costs_.costs();
  costs.links = measured.links;
  costs.gradient_reduction = measured.gradient_reduction;
  costs.optimizer_step = measured.optimizer_step;
  costs.tied_sum = measured.tied_sum;
  costs.traffic_slowdown = 0;  // the actions have it
  prediction_ = predict(costs);
  own_costs_ = true;
}

void RunAccount::add(std::span<const accounting::RankTimes> ranks,
                     std::span<const accounting::StepAccount> accounts) {
  if (++seen_ <= warm_up_steps) return;
  latest_ = mean_over_ranks(accounts);
  memory_peaks_.resize(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) memory_peaks_[rank] = ranks[rank].memory_peak;
  units_.add(ranks);
  if (costs_.steps() < measured_steps) costs_.add(ranks);
  if (costs_.steps() == measured_steps && (seen_ - warm_up_steps - measured_steps) % refresh_steps == 0)
    predict_by_own_costs();
}

void RunAccount::announce_costs(int64_t step, RunReports& reports) {
  if (announced_ || !own_costs_) return;
  announced_ = true;
  const RunCosts::Difference difference = units_.difference();
  reports.note(
      fmt::format("step {}: predictions now use the run's own costs, of {} steps: F + I + W {:+.1f} % "
                  "against the {}, of stage {} "
                  "{:+.1f} %",
                  step, units_.steps(), 100 * difference.all, units_.given().measured ? "profile" : "formula",
                  difference.stage, 100 * difference.largest));
  reports.event("costs", step,
                {{"steps", units_.steps()},
                 {"source", units_.given().note},
                 {"difference", difference.all},
                 {"stage", difference.stage},
                 {"stage_difference", difference.largest}});
}

void RunAccount::add_step(double seconds, const accounting::StepFigures& figures) {
  if (seen_ <= warm_up_steps) return;
  if (steps_.capacity() == 0) steps_.reserve(compared_steps);
  const Step step{seconds, figures, latest_};
  if (steps_.size() < compared_steps) {
    steps_.push_back(step);
  } else {
    steps_[seen_ % compared_steps] = step;
  }
}

PartSeconds RunAccount::mean_parts() const {
  PartSeconds mean;
  for (const Step& step : steps_) {
    for (size_t part = 0; part < accounting::part_count; ++part) {
      mean[static_cast<Part>(part)] +=
          step.parts[static_cast<Part>(part)] / static_cast<double>(steps_.size());
    }
  }
  return mean;
}

// Of ranks in one process only the process's own peak is known.
nlohmann::json RunAccount::memory_of_ranks(const MemoryReport& memory, bool in_one_process) const {
  nlohmann::json ranks = nlohmann::json::array();
  size_t all = 0;
  for (size_t rank = 0; rank < memory.ranks.size(); ++rank) {
    const size_t predicted = memory.total(rank);
    all += memory.ranks[rank].device.bytes() + memory.host(rank);
    ranks.push_back({{"rank", rank}, {"predicted_memory_bytes", predicted}});
    if (!in_one_process) ranks.back()["memory_peak_bytes"] = memory_peaks_[rank];
  }
  if (!in_one_process) return {{"ranks", ranks}};
  return {{"ranks", ranks},
          {"predicted_process_bytes", all * static_cast<size_t>(memory.replicas) + memory.outside},
          {"process_peak_bytes", memory_peaks_.front()}};
}

void RunAccount::conclude(int64_t step, const MemoryReport& memory, bool in_one_process,
                          RunReports& reports) {
  if (steps_.empty()) return;
  if (!own_costs_) predict_by_own_costs();
  std::vector<double> seconds;
  std::vector<double> bubbles;
  std::vector<double> imbalances;
  for (const Step& each : steps_) {
    seconds.push_back(each.seconds);
    bubbles.push_back(each.figures.bubble_ratio);
    imbalances.push_back(each.figures.stage_imbalance);
  }
  const double measured = accounting::median(std::move(seconds));
  const double bubble = accounting::median(std::move(bubbles));
  const double predicted = prediction_->account.seconds();
  const PartSeconds parts = mean_parts();
  const PartSeconds expected = mean_over_ranks({&prediction_->account, 1});
  std::string text =
      fmt::format("step {:.4g} ms measured, {:.4g} predicted", 1e3 * measured, 1e3 * predicted);
  if (plan_->training.ranks.size() > 1) {
    text +=
        fmt::format("; bubble {:.1f} % ({:.1f} %)", 100 * bubble, 100 * prediction_->figures.bubble_ratio);
  }
  if (const std::string causes = differences(parts, expected, measured); !causes.empty())
    text += "; mean of a rank against the prediction: " + causes;
  if (share_.crowded()) text += fmt::format("; {}: times are of an oversubscribed machine", share_.text());
  reports.note(text);

  nlohmann::json causes;
  for (size_t at = 0; at < accounting::part_count; ++at) {
    const auto part = static_cast<Part>(at);
    causes[std::string(accounting::name_of(part))] = {{"ms", 1e3 * parts[part]},
                                                      {"predicted_ms", 1e3 * expected[part]}};
  }
  nlohmann::json event{{"steps", steps_.size()},
                       {"step_ms", 1e3 * measured},
                       {"predicted_step_ms", 1e3 * predicted},
                       {"bubble_ratio", bubble},
                       {"predicted_bubble_ratio", prediction_->figures.bubble_ratio},
                       {"stage_imbalance", accounting::median(std::move(imbalances))},
                       {"predicted_stage_imbalance", prediction_->figures.stage_imbalance},
                       {"threads_per_processor", share_.load()},
                       {"causes", causes},
                       {"memory", memory_of_ranks(memory, in_one_process)}};
  if (planned_) {
    event["planned_step_ms"] = 1e3 * planned_->account.seconds();
    event["planned_bubble_ratio"] = planned_->figures.bubble_ratio;
    event["planned_stage_imbalance"] = planned_->figures.stage_imbalance;
  }
  reports.event("prediction", step, event);
}

void RunAccount::advise(int64_t step, const Job& job, RunReports& reports) const {
  if (steps_.empty() || plan_->training.ranks.size() < 2) return;
  advice::Measured measured;
  for (const Step& each : steps_) {
    measured.step += each.seconds / static_cast<double>(steps_.size());
    measured.bubble += each.figures.bubble_ratio / static_cast<double>(steps_.size());
  }
  const PartSeconds parts = mean_parts();
  const double time = parts.all();
  if (!(time > 0)) return;
  measured.idle = parts.idle() / time;
  measured.host = (parts[Part::data] + parts[Part::host] + parts[Part::launch]) / time;
  measured.pause = parts.pauses() / time;
  measured.reduction = parts[Part::reduction] / time;
  measured.threads_per_processor = share_.load();
  measured.replicas = static_cast<int>(job.parallel.data);
  const advice::Advice advice = advice::advise(measured, running_question(job, units_.measured()));
  for (const std::string& line : text_of(advice)) reports.note(line);
  reports.event("advice", step, json_of(advice));
}

}  // namespace penstock
