#include "trainer/report/prometheus_file.h"

#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/file_writer.h"

namespace penstock::report {
namespace {

constexpr auto period = std::chrono::seconds(5);

// What a label's value may not hold as it is.
std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class Text {
 public:
  explicit Text(const std::string& run) : run_(escaped(run)) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP penstock_{} {}\n# TYPE penstock_{} {}\n", name, help,
                   name, type);
  }
  void sample(std::string_view name, std::string_view labels, double value) {
    fmt::format_to(std::back_inserter(text_), "penstock_{}{{run=\"{}\"{}}} {}\n", name, run_, labels,
                   number(value));
  }
  const std::string& text() const { return text_; }

 private:
  std::string run_;
  std::string text_;
};

void add_ranks(const StepMetrics& metrics, Text& out) {
  if (metrics.ranks.empty()) return;
  out.family("rank_ms", "gauge", "milliseconds of the step by rank and part, as in metrics.jsonl");
  for (const RankMetrics& rank : metrics.ranks) {
    for (size_t i = 0; i < rank.count; ++i) {
      out.sample("rank_ms",
                 fmt::format(",rank=\"{}\",replica=\"{}\",part=\"{}\"", rank.rank, rank.replica,
                             rank.values[i].name),
                 rank.values[i].value);
    }
  }
}

std::string of_limit(const std::string& name) {
  return fmt::format(",limit=\"{}\"", name);
}

void add_limits(const std::vector<LimitGauge>& limits, const std::map<std::string, int64_t>& alarms,
                Text& out) {
  if (limits.empty()) return;
  out.family("budget_limit", "gauge", "limit of the bubble budget");
  for (const LimitGauge& each : limits) out.sample("budget_limit", of_limit(each.name), each.limit);
  out.family("budget_found", "gauge", "what the last window had");
  for (const LimitGauge& each : limits) {
    if (each.found) out.sample("budget_found", of_limit(each.name), *each.found);
  }
  out.family("budget_alarming", "gauge", "1 while the limit is alarming");
  for (const LimitGauge& each : limits)
    out.sample("budget_alarming", of_limit(each.name), each.alarming ? 1 : 0);
  out.family("budget_alarms_total", "counter", "alarms of this attempt");
  for (const auto& [name, count] : alarms)
    out.sample("budget_alarms_total", of_limit(name), static_cast<double>(count));
}

}  // namespace

PrometheusFile::PrometheusFile(std::string path, std::string run, MessageSink sink,
                               std::function<Clock::time_point()> now)
    : path_(std::move(path)), run_(std::move(run)), sink_(std::move(sink)), now_(std::move(now)) {}

PrometheusFile::~PrometheusFile() {
  if (stale_) write();
}

void PrometheusFile::step(const StepMetrics& metrics) {
  latest_ = metrics;
  stale_ = true;
  if (!written_ || now_() - *written_ >= period) write();
}

void PrometheusFile::limits(std::vector<LimitGauge> limits) {
  bool changed = limits_.size() != limits.size();
  for (size_t i = 0; i < limits.size(); ++i) {
    const bool before = i < limits_.size() && limits_[i].alarming;
    alarms_[limits[i].name] += limits[i].alarming && !before ? 1 : 0;
    changed = changed || limits[i].alarming != before;
  }
  limits_ = std::move(limits);
  stale_ = true;
  if (changed) write();
}

std::string PrometheusFile::text() const {
  Text out(run_);
  out.family("step", "gauge", "optimizer steps completed");
  out.sample("step", "", static_cast<double>(latest_.step));
  out.family("tokens_total", "counter", "target tokens since the run began");
  out.sample("tokens_total", "", static_cast<double>(latest_.tokens));
  for (const StepMetrics::Scalar& scalar : latest_.scalars()) {
    if (!scalar.value) continue;
    out.family(scalar.name, "gauge", "of the latest step, as in metrics.jsonl");
    out.sample(scalar.name, "", *scalar.value);
  }
  add_ranks(latest_, out);
  add_limits(limits_, alarms_, out);
  out.family("rearrangements_total", "counter", "times that this attempt was arranged otherwise");
  out.sample("rearrangements_total", "", static_cast<double>(rearrangements_));
  return out.text();
}

void PrometheusFile::write() {
  written_ = now_();
  try {
    data::replace_file(path_, text());
    stale_ = false;
    failing_ = false;
  } catch (const data::DataError& error) {
    if (!failing_ && sink_) sink_(error.what());
    failing_ = true;
  }
}

}  // namespace penstock::report
