#include "trainer/watch/panel.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trainer/watch/layout.h"

namespace penstock::watch {
namespace {

// Lines of a text that is too wide, broken between words; the rest is set in.
std::vector<std::string> wrapped(const std::string& text, int columns) {
  std::vector<std::string> lines;
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && columns_of(line) + 1 + columns_of(word) > columns) {
      lines.push_back(std::exchange(line, "  " + word));
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
    at = end + 1;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<Line> panel(const run_view::RunState& run, const View& view) {
  const std::vector<run_view::RankMean> ranks = run.rank_means();
  std::vector<Line> budget;
  if (run.budget()) budget = budget_lines(*run.budget(), view);
  std::vector<Line> advice;
  for (const std::string& text : view.advice) {
    for (const std::string& line : wrapped(shown(text, view.abilities), view.columns))
      advice.emplace_back().add(line, advice.empty() ? Ink::strong : Ink::plain);
  }
  const Wanted wanted{static_cast<int>(ranks.size()), static_cast<int>(budget.size()),
                      static_cast<int>(advice.size()), static_cast<int>(run.events().size()),
                      !run.past().empty()};
  const Heights heights = share_out(wanted, view.rows);
  std::vector<Line> all;
  const auto part = [&](std::vector<Line> lines, int height) {
    if (height <= 0) return;
    if (heights.gaps) all.emplace_back();
    lines.resize(std::min(lines.size(), static_cast<size_t>(height)));
    std::move(lines.begin(), lines.end(), std::back_inserter(all));
  };
  all.push_back(header(run, view));
  all.push_back(progress(run, view));
  part(sparklines(run, view, heights.sparklines), heights.sparklines);
  std::vector<Line> bars = rank_bars(ranks, view, heights.ranks);
  if (heights.legend > 0) bars.push_back(legend(ranks, view));
  part(std::move(bars), heights.ranks + heights.legend);
  part(std::move(budget), heights.budget);
  part(std::move(advice), heights.advice);
  part(event_lines(run, view, heights.events), heights.events);
  for (Line& line : all) line.clip(view.columns);
  return all;
}

}  // namespace penstock::watch
