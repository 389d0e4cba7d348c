#include "trainer/run_view/run_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "trainer/budget/step_line.h"

namespace penstock::run_view {
namespace {

using nlohmann::json;

constexpr double kMillisecond = 1e-3;

std::optional<double> number(const json& line, const char* key, double unit = 1) {
  const auto found = line.find(key);
  if (found == line.end()) return std::nullopt;
  if (found->is_null()) return std::numeric_limits<double>::quiet_NaN();  // how NaN and Inf are written
  if (!found->is_number()) return std::nullopt;
  return unit * found->get<double>();
}

std::optional<int64_t> whole(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

RankRow row_of(const json& row) {
  RankRow made;
  made.rank = static_cast<int>(whole(row, "rank").value_or(0));
  made.replica = static_cast<int>(whole(row, "replica").value_or(0));
  made.parts = budget::parts_of_row(row);
  made.accounted = number(row, "accounted_ms", kMillisecond).value_or(made.parts.all());
  made.root_rank = static_cast<int>(whole(row, "root_rank").value_or(-1));
  made.root_link_to = static_cast<int>(whole(row, "root_link_to").value_or(-1));
  made.root = number(row, "root_ms", kMillisecond).value_or(0);
  return made;
}

std::optional<budget::StepObservation> observation_of(const json& line) {
  try {
    return budget::observation_of_line(line, "step");
  } catch (const data::DataError&) {
    return std::nullopt;
  }
}

}  // namespace

double RunStep::passed() const {
  double longest = 0;
  for (const RankRow& row : ranks) longest = std::max(longest, row.accounted);
  return longest > 0 ? longest : seconds.value_or(0);
}

std::optional<RunStep> parse_step(std::string_view text) {
  const json line = json::parse(text, nullptr, false);
  if (!line.is_object()) return std::nullopt;
  const std::optional<int64_t> step = whole(line, "step");
  if (!step || *step < 1) return std::nullopt;
  RunStep made;
  made.step = *step;
  made.attempt = whole(line, "attempt").value_or(1);
  made.tokens = whole(line, "tokens").value_or(0);
  made.loss = number(line, "loss");
  made.gradient_norm = number(line, "grad_norm");
  made.learning_rate = number(line, "learning_rate");
  made.seconds = number(line, "step_ms", kMillisecond);
  made.tokens_per_second = number(line, "tokens_per_second");
  made.matmul_share = number(line, "matmul_share");
  made.mfu = number(line, "mfu");
  made.memory_peak = number(line, "memory_peak_bytes");
  made.bubble_ratio = number(line, "bubble_ratio");
  made.idle_ratio = number(line, "idle_ratio");
  made.stage_imbalance = number(line, "stage_imbalance");
  made.predicted = number(line, "predicted_step_ms", kMillisecond);
  if (const std::optional<double> stage = number(line, "slowest_stage"); stage && std::isfinite(*stage))
    made.slowest_stage = static_cast<int>(*stage);
  const auto ranks = line.find("ranks");
  if (ranks != line.end() && ranks->is_array()) {
    for (const json& row : *ranks) {
      if (row.is_object()) made.ranks.push_back(row_of(row));
    }
  }
  std::stable_sort(made.ranks.begin(), made.ranks.end(), [](const RankRow& a, const RankRow& b) {
    return std::pair(a.replica, a.rank) < std::pair(b.replica, b.rank);
  });
  if (!made.ranks.empty()) made.observation = observation_of(line);
  return made;
}

}  // namespace penstock::run_view
