#include "trainer/report/metrics_writer.h"

#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

namespace penstock::report {

MetricsWriter::MetricsWriter(const std::string& path, int64_t attempt, MessageSink sink)
    : file_(path, AppendFile::Tail::cut_partial_line, std::move(sink)), attempt_(attempt) {}

void MetricsWriter::write(const StepMetrics& metrics) {
  line_.clear();
  const auto out = std::back_inserter(line_);
  fmt::format_to(out, R"({{"schema": 1, "attempt": {}, "step": {}, "tokens": {})", attempt_, metrics.step,
                 metrics.tokens);
  for (const StepMetrics::Scalar& scalar : metrics.scalars()) {
    if (!scalar.value) continue;
    if (std::isfinite(*scalar.value)) {
      fmt::format_to(out, R"(, "{}": {})", scalar.name, *scalar.value);
    } else {
      fmt::format_to(out, R"(, "{}": null)", scalar.name);
    }
  }
  if (!metrics.ranks.empty()) write_ranks(metrics);
  fmt::format_to(out, "}}\n");
  file_.append(std::string_view(line_.data(), line_.size()));
}

void MetricsWriter::write_ranks(const StepMetrics& metrics) {
  const auto out = std::back_inserter(line_);
  fmt::format_to(out, R"(, "ranks": [)");
  bool first = true;
  for (const RankMetrics& rank : metrics.ranks) {
    fmt::format_to(out, R"({}{{"rank": {}, "replica": {})", first ? "" : ", ", rank.rank, rank.replica);
    first = false;
    for (size_t at = 0; at < rank.count; ++at) {
      // Microseconds are fine enough, and there are many of these.
      fmt::format_to(out, R"(, "{}": {:.3f})", rank.values[at].name, rank.values[at].value);
    }
    if (rank.root_rank >= 0) fmt::format_to(out, R"(, "root_rank": {})", rank.root_rank);
    if (rank.root_rank >= 0 && rank.root_link_to >= 0)
      fmt::format_to(out, R"(, "root_link_to": {})", rank.root_link_to);
    fmt::format_to(out, "}}");
  }
  fmt::format_to(out, "]");
}

}  // namespace penstock::report
