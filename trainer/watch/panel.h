#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "trainer/run_view/run_state.h"
#include "trainer/watch/line.h"

namespace penstock::watch {

/// On what the panel is drawn, and what it says beside the run's own files.
struct View {
  int columns = 80;
  int rows = 0;  ///< 0: as many as the run needs
  Abilities abilities;
  std::chrono::system_clock::time_point now;
  std::vector<std::string> advice;  ///< what the figures mean, a line each
  std::string hint;                 ///< at the right of the first row: "q quits"
};

/// The whole panel: at most `rows` lines of at most `columns` columns.
std::vector<Line> panel(const run_view::RunState& run, const View& view);

// Its parts, a file each.
Line header(const run_view::RunState& run, const View& view);
Line progress(const run_view::RunState& run, const View& view);
/// Loss, step time, bubble: the first `count` of them.
std::vector<Line> sparklines(const run_view::RunState& run, const View& view, int count);
/// A bar a rank; where there are more ranks than rows, neighbours share one.
std::vector<Line> rank_bars(const std::vector<run_view::RankMean>& ranks, const View& view, int rows);
/// Of the causes that occur.
Line legend(const std::vector<run_view::RankMean>& ranks, const View& view);
std::vector<Line> budget_lines(const run_view::BudgetView& budget, const View& view);
/// The last ones, the newest at the bottom.
std::vector<Line> event_lines(const run_view::RunState& run, const View& view, int rows);

/// "█▄▁" of values, the last ones at the right, as many as fit `columns`; several values share a column where
/// there are more. NaN leaves a hole.
std::string sparkline(const std::vector<double>& values, int columns, const Abilities& abilities);

}  // namespace penstock::watch
