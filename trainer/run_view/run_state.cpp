#include "trainer/run_view/run_state.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "trainer/budget/limits.h"
#include "trainer/job/problems.h"
#include "trainer/job/read_job.h"

namespace penstock::run_view {
namespace {

std::string text_of_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool same_attempt(const RunStep& a, const RunStep& b) {
  return a.attempt == b.attempt;
}

}  // namespace

RunState::RunState(const std::filesystem::path& folder, std::optional<BubbleBudgetSection> budget)
    : paths_(folder),
      metrics_(paths_.metrics().string(), most_metrics_bytes),
      event_lines_(paths_.events().string(), most_event_bytes),
      own_budget_(!budget) {
  if (budget) budget_.emplace(std::move(*budget), false);
}

void RunState::read_job() {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(paths_.job(), error);
  if (error || (job_ && time == job_time_)) return;
  try {
    job_ = parse_job_values(text_of_file(paths_.job()), paths_.job().string());
  } catch (const JobError&) {
    job_.reset();
    return;
  }
  job_time_ = time;
  if (!own_budget_ || budget::limits_of(job_->bubble_budget).empty()) return;
  if (budget_ && budget_->section() == job_->bubble_budget) return;
  budget_.emplace(job_->bubble_budget, true);
  for (const RunStep& step : steps_) budget_->add(step);
  for (const RunEvent& event : events_) budget_->add(event);
}

void RunState::add(RunStep step) {
  // Steps that were done again after a resume stand there twice, and the later ones count.
  while (!steps_.empty() && steps_.back().step >= step.step) steps_.pop_back();
  while (!past_.empty() && past_.back().step >= step.step) past_.pop_back();
  if (budget_) budget_->add(step);
  past_.push_back({step.step, step.observation ? step.observation->seconds : step.passed(), step.loss,
                   step.bubble_ratio});
  steps_.push_back(std::move(step));
  while (steps_.size() > kept_steps) steps_.pop_front();
  while (past_.size() > kept_past) past_.pop_front();
}

void RunState::refresh(const Surroundings& around) {
  read_job();
  if (std::optional<StatusRecord> status = parse_status(text_of_file(paths_.status())))
    status_ = std::move(status);
  metrics_.read(
      [this](std::string_view line) {
        if (std::optional<RunStep> step = parse_step(line)) {
          add(std::move(*step));
        } else {
          ++damaged_;
        }
      },
      [this] {
        steps_.clear();
        past_.clear();
        damaged_ = 0;
        if (budget_) budget_->restart_steps();
      });
  event_lines_.read(
      [this](std::string_view line) {
        std::optional<RunEvent> event = parse_event(line);
        if (!event) return;
        if (budget_) budget_->add(*event);
        events_.push_back(std::move(*event));
        while (events_.size() > kept_events) events_.pop_front();
      },
      [this] {
        events_.clear();
        if (budget_) budget_->restart_events();
      });
  liveness_ = liveness_of(paths_.lock(), status_, step_seconds(), around);
}

int64_t RunState::step() const {
  // A resumed run's status begins at its checkpoint, before steps of an earlier attempt.
  if (status_ && (steps_.empty() || status_->attempt > steps_.back().attempt)) return status_->step;
  return steps_.empty() ? 0 : steps_.back().step;
}

int64_t RunState::total_steps() const {
  if (status_ && status_->steps > 0) return status_->steps;
  return job_ ? job_->run.steps : 0;
}

std::optional<double> RunState::loss() const {
  if (!steps_.empty() && steps_.back().loss) return steps_.back().loss;
  return status_ ? status_->loss : std::nullopt;
}

std::optional<int64_t> RunState::last_checkpoint() const {
  return status_ ? status_->last_checkpoint : std::nullopt;
}

// The last steps of the last attempt, without its first, which warms caches up.
size_t RunState::mean_begin() const {
  size_t begin = steps_.size();
  while (begin > 0 && steps_.size() - begin < mean_steps && same_attempt(steps_[begin - 1], steps_.back()))
    --begin;
  const bool first = begin < steps_.size() && (begin == 0 || !same_attempt(steps_[begin - 1], steps_[begin]));
  return first && steps_.size() - begin > 2 && steps_.size() - begin < mean_steps ? begin + 1 : begin;
}

double RunState::step_seconds() const {
  const size_t begin = mean_begin();
  if (begin == steps_.size()) return 0;
  double sum = 0;
  for (size_t i = begin; i < steps_.size(); ++i) sum += steps_[i].passed();
  return sum / static_cast<double>(steps_.size() - begin);
}

std::optional<double> RunState::tokens_per_second() const {
  if (steps_.empty()) return std::nullopt;
  const size_t begin = mean_begin();
  if (steps_.size() - begin < 2) return steps_.back().tokens_per_second;
  double seconds = 0;
  for (size_t i = begin + 1; i < steps_.size(); ++i) seconds += steps_[i].passed();
  if (!(seconds > 0)) return std::nullopt;
  return static_cast<double>(steps_.back().tokens - steps_[begin].tokens) / seconds;
}

std::optional<double> RunState::bubble_ratio() const {
  double bubble = 0;
  double seconds = 0;
  for (size_t i = mean_begin(); i < steps_.size(); ++i) {
    if (!steps_[i].observation) continue;
    bubble += steps_[i].observation->bubble_ratio * steps_[i].observation->seconds;
    seconds += steps_[i].observation->seconds;
  }
  if (!(seconds > 0)) return std::nullopt;
  return bubble / seconds;
}

std::optional<double> RunState::idle_ratio() const {
  double idle = 0;
  double seconds = 0;
  for (size_t i = mean_begin(); i < steps_.size(); ++i) {
    if (!steps_[i].idle_ratio) continue;
    idle += *steps_[i].idle_ratio * steps_[i].passed();
    seconds += steps_[i].passed();
  }
  if (!(seconds > 0)) return std::nullopt;
  return idle / seconds;
}

std::optional<double> RunState::seconds_left() const {
  const double each = step_seconds();
  if (!(each > 0) || total_steps() <= 0 || liveness_.life != Life::alive) return std::nullopt;
  return each * static_cast<double>(std::max<int64_t>(0, total_steps() - step()));
}

std::vector<RankMean> RunState::rank_means() const {
  std::vector<RankMean> means;
  size_t count = 0;
  for (size_t i = mean_begin(); i < steps_.size(); ++i) {
    const std::vector<RankRow>& rows = steps_[i].ranks;
    if (rows.empty()) continue;
    if (means.size() != rows.size()) {
      means.assign(rows.size(), {});
      count = 0;
    }
    ++count;
    for (size_t r = 0; r < rows.size(); ++r) {
      means[r].rank = rows[r].rank;
      means[r].replica = rows[r].replica;
      means[r].step += rows[r].accounted;
      means[r].causes.add(rows[r].parts);
      means[r].busy += rows[r].parts.busy();
    }
  }
  if (means.empty()) return means;
  for (RankMean& mean : means) {
    CauseSums scaled;
    scaled.add(mean.causes, 1 / static_cast<double>(count));
    mean.causes = scaled;
    mean.step /= static_cast<double>(count);
    mean.busy /= static_cast<double>(count);
  }
  std::max_element(means.begin(), means.end(), [](const RankMean& a, const RankMean& b) {
    return a.busy < b.busy;
  })->slowest = means.size() > 1;
  return means;
}

}  // namespace penstock::run_view
