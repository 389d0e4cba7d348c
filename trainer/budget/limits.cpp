#include "trainer/budget/limits.h"

#include <nlohmann/json.hpp>

namespace penstock::budget {

namespace {

constexpr double milliseconds = 1e3;

bool is_time(Figure figure) {
  return figure == Figure::drain || figure == Figure::step_p95;
}

}  // namespace

const char* name_of(Figure figure) {
  switch (figure) {
    case Figure::bubble_ratio:
      return "bubble_ratio";
    case Figure::stage_imbalance:
      return "stage_imbalance";
    case Figure::drain:
      return "drain_ms";
    case Figure::step_p95:
      return "step_p95_ms";
    case Figure::amplification:
      return "amplification";
  }
  return "?";
}

std::vector<Limit> limits_of(const BubbleBudgetSection& section) {
  std::vector<Limit> limits;
  const auto add = [&](Figure figure, const std::optional<double>& key) {
    if (key) limits.push_back({figure, is_time(figure) ? *key / milliseconds : *key});
  };
  add(Figure::bubble_ratio, section.bubble_ratio);
  add(Figure::stage_imbalance, section.stage_imbalance);
  add(Figure::drain, section.drain_ms);
  add(Figure::step_p95, section.step_p95_ms);
  add(Figure::amplification, section.amplification);
  return limits;
}

std::optional<double> figure_of(const Window& window, Figure figure) {
  switch (figure) {
    case Figure::bubble_ratio:
      return window.bubble_ratio;
    case Figure::stage_imbalance:
      return window.stage_imbalance;
    case Figure::drain:
      return window.drain;
    case Figure::step_p95:
      return window.step_p95;
    case Figure::amplification:
      return window.amplification;
  }
  return std::nullopt;
}

double in_key_unit(Figure figure, double value) {
  return is_time(figure) ? milliseconds * value : value;
}

AlarmWatch::AlarmWatch(std::vector<Limit> limits, int64_t patience) : patience_(patience) {
  for (const Limit& limit : limits) watched_.push_back({limit});
}

AlarmWatch::News AlarmWatch::add(const Window& window) {
  News news;
  for (Watched& at : watched_) {
    const std::optional<double> found = figure_of(window, at.limit.figure);
    at.last = found;
    if (!found) continue;
    if (*found > at.limit.value) {
      if (at.broken == 0) {
        at.since_step = window.first_step;
        at.sum = 0;
      }
      at.kept = 0;
      ++at.broken;
      at.sum += *found;
      if (at.alarming || at.broken < patience_) continue;
      at.alarming = true;
      news.raised.push_back({at.limit, at.sum / static_cast<double>(at.broken), at.broken, at.since_step,
                             window.last_step, window.why});
    } else {
      at.broken = 0;
      ++at.kept;
      if (!at.alarming || at.kept < patience_) continue;
      at.alarming = false;
      news.cleared.push_back(at.limit);
    }
  }
  return news;
}

std::vector<AlarmWatch::Reading> AlarmWatch::readings() const {
  std::vector<Reading> made;
  for (const Watched& at : watched_) made.push_back({at.limit, at.last, at.alarming});
  return made;
}

bool AlarmWatch::alarming() const {
  for (const Watched& at : watched_) {
    if (at.alarming && at.broken > 0) return true;
  }
  return false;
}

}  // namespace penstock::budget
