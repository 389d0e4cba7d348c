#include "trainer/run_report/run_history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "trainer/run_view/line_tail.h"

namespace penstock::run_report {
namespace {

using run_view::RunEvent;
using run_view::RunStep;

// A whole number behind `"key": ` of a line, without parsing the rest of it; the writer puts it in front.
std::optional<int64_t> front_number(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const char* begin = line.data() + at + key.size();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), number);
  if (error != std::errc() || end == begin) return std::nullopt;
  return number;
}

// Attempt and step of a line of metrics.jsonl, without parsing the rest of it; nothing where it has no step.
std::optional<std::pair<int64_t, int64_t>> place_of(std::string_view line) {
  const std::optional<int64_t> step = front_number(line, "\"step\": ");
  if (!step || *step <= 0) return std::nullopt;
  return std::pair(front_number(line, "\"attempt\": ").value_or(1), *step);
}

/// Counts the legs of a run: one that is taken back to a checkpoint, by a new attempt or within one, goes on
/// in a new leg.
class LegCounter {
 public:
  /// Of the file's next line, from 0.
  size_t leg_of(const std::pair<int64_t, int64_t>& place) {
    if (last_ && (place.first != last_->first || place.second <= last_->second)) ++leg_;
    last_ = place;
    return leg_;
  }

 private:
  std::optional<std::pair<int64_t, int64_t>> last_;
  size_t leg_ = 0;
};

/// From which step on a leg counts, and earlier ones no longer do.
struct Legs {
  std::vector<int64_t> first_step;
  std::set<int64_t> attempts;
  int64_t lowest = std::numeric_limits<int64_t>::max();
  int64_t highest = 0;
  LegCounter counter;

  void add(const std::pair<int64_t, int64_t>& place) {
    const auto [attempt, step] = place;
    if (counter.leg_of(place) == first_step.size()) first_step.push_back(step);
    attempts.insert(attempt);
    lowest = std::min(lowest, step);
    highest = std::max(highest, step);
  }
  bool counts(size_t leg, int64_t step) const {
    return std::none_of(first_step.begin() + static_cast<std::ptrdiff_t>(leg) + 1, first_step.end(),
                        [&](int64_t later) { return later <= step; });
  }
};

/// A mean of what is known.
struct Mean {
  double sum = 0;
  int64_t count = 0;
  void add(const std::optional<double>& value) {
    if (!value || !std::isfinite(*value)) return;
    sum += *value;
    ++count;
  }
  std::optional<double> value() const {
    if (count == 0) return std::nullopt;
    return sum / static_cast<double>(count);
  }
};

struct OpenBucket {
  Bucket made;
  Mean loss;
  Mean bubble;
  Mean imbalance;
  Mean predicted;
};

class Collector {
 public:
  Collector(RunHistory& history, int64_t first, int64_t last, int64_t most)
      : history_(history), first_(first), size_(std::max<int64_t>(1, (last - first + most) / most)) {}

  void add(const RunStep& step, double tokens) {
    const auto index = static_cast<size_t>((step.step - first_) / size_);
    if (open_.size() <= index) open_.resize(index + 1);
    OpenBucket& bucket = open_[index];
    Bucket& made = bucket.made;
    if (made.steps == 0) made.first_step = step.step;
    made.last_step = step.step;
    ++made.steps;
    ++history_.steps;
    const double seconds = step.observation ? step.observation->seconds : step.seconds.value_or(0);
    made.seconds += step.passed();
    made.step += seconds;
    made.longest_step = std::max(made.longest_step, seconds);
    made.tokens += tokens;
    bucket.loss.add(step.loss);
    bucket.bubble.add(step.bubble_ratio);
    bucket.imbalance.add(step.stage_imbalance);
    bucket.predicted.add(step.predicted);
    run_view::CauseSums causes;
    for (const run_view::RankRow& row : step.ranks)
      causes.add(row.parts, 1 / static_cast<double>(step.ranks.size()));
    if (step.ranks.empty()) causes[run_view::Cause::unexplained] += step.passed();
    made.causes.add(causes);
    history_.goodput.steps.add(causes);
    for (const run_view::RankRow& row : step.ranks) add_rank(row);
  }

  void finish() {
    for (OpenBucket& bucket : open_) {
      if (bucket.made.steps == 0) continue;
      bucket.made.step /= static_cast<double>(bucket.made.steps);
      bucket.made.loss = bucket.loss.value();
      bucket.made.bubble_ratio = bucket.bubble.value();
      bucket.made.stage_imbalance = bucket.imbalance.value();
      bucket.made.predicted_step = bucket.predicted.value();
      history_.buckets.push_back(bucket.made);
    }
    for (auto& [place, rank] : ranks_) {
      const double share = 1 / static_cast<double>(rank.steps);
      for (size_t at = 0; at < accounting::part_count; ++at)
        rank.parts[static_cast<accounting::Part>(at)] *= share;
      for (auto& [root, seconds] : rank.behind) seconds *= share;
      history_.ranks.push_back(std::move(rank));
    }
  }

 private:
  void add_rank(const run_view::RankRow& row) {
    RankHistory& rank = ranks_[{row.replica, row.rank}];
    rank.rank = row.rank;
    rank.replica = row.replica;
    ++rank.steps;
    for (size_t at = 0; at < accounting::part_count; ++at) {
      const auto part = static_cast<accounting::Part>(at);
      rank.parts[part] += row.parts[part];
    }
    if (row.root_rank >= 0) rank.behind[{row.root_rank, row.root_link_to}] += row.root;
  }

  RunHistory& history_;
  int64_t first_;
  int64_t size_;
  std::vector<OpenBucket> open_;
  std::map<std::pair<int, int>, RankHistory> ranks_;
};

double seconds_between(const RunEvent& from, const RunEvent& to) {
  return std::chrono::duration<double>(*to.time - *from.time).count();
}

// When attempts began and ended, by their events and by what their steps took.
void account_for_attempts(const std::vector<RunEvent>& events, const std::map<int64_t, double>& step_seconds,
                          Goodput& goodput) {
  std::map<int64_t, std::pair<const RunEvent*, const RunEvent*>> attempts;  // first and last event
  for (const RunEvent& event : events) {
    if (!event.time) continue;
    auto& [first, last] = attempts[event.attempt];
    if (first == nullptr) first = &event;
    last = &event;
  }
  const RunEvent* origin = nullptr;
  double before = 0;  // when the attempt before ended, since the origin
  double known = 0;
  for (const auto& [attempt, ends] : attempts) {
    if (origin == nullptr) origin = ends.first;
    const double begin = std::max(before, seconds_between(*origin, *ends.first));
    const auto steps = step_seconds.find(attempt);
    const double in_steps = steps == step_seconds.end() ? 0 : steps->second;
    known += in_steps;
    // A killed attempt has no last event: its steps say how long it lived.
    const double end = std::max(begin + in_steps, seconds_between(*origin, *ends.second));
    goodput.not_running += begin - before;
    goodput.starting += end - begin - in_steps;
    before = end;
  }
  double all = 0;
  for (const auto& [attempt, seconds] : step_seconds) all += seconds;
  goodput.wall = before + (all - known);  // attempts that no event tells of
}

}  // namespace

RunHistory read_history(const std::string& metrics_file, const std::vector<RunEvent>& events,
                        int64_t most_buckets) {
  RunHistory history;
  Legs legs;
  // The file may grow between the two readings: the second ends where the first did.
  int64_t lines = 0;
  run_view::LineTail(metrics_file).read([&](std::string_view line) {
    ++lines;
    if (const auto place = place_of(line)) legs.add(*place);
  });
  history.attempts = static_cast<int64_t>(legs.attempts.size());
  if (legs.attempts.empty()) return history;
  Collector collector(history, legs.lowest, legs.highest, most_buckets);
  std::map<int64_t, double> step_seconds;
  int64_t tokens_before = -1;
  LegCounter again;
  run_view::LineTail(metrics_file).read([&](std::string_view line) {
    if (lines-- <= 0) return;
    const auto place = place_of(line);
    const size_t leg = place ? again.leg_of(*place) : 0;
    const std::optional<RunStep> step = run_view::parse_step(line);
    if (!place || !step || step->step > legs.highest || step->step < legs.lowest) {
      ++history.damaged_lines;
      return;
    }
    step_seconds[step->attempt] += step->passed();
    if (legs.counts(leg, step->step)) {
      // `tokens` is a sum since the run began; of the first line the step's own share is its mean.
      const double tokens = tokens_before >= 0
                                ? static_cast<double>(step->tokens - tokens_before)
                                : static_cast<double>(step->tokens) / static_cast<double>(step->step);
      collector.add(*step, std::max(0.0, tokens));
      tokens_before = step->tokens;
    } else {
      history.goodput.redone_steps += step->passed();
    }
  });
  collector.finish();
  account_for_attempts(events, step_seconds, history.goodput);
  return history;
}

}  // namespace penstock::run_report
