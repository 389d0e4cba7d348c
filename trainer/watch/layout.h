#pragma once

namespace penstock::watch {

/// How many rows each part of the panel would fill.
struct Wanted {
  int ranks = 0;
  int budget = 0;
  int advice = 0;
  int events = 0;
  bool steps = false;  ///< there are some: sparklines have something to show
};

/// Rows that each part of the panel gets, from top to bottom.
struct Heights {
  int header = 1;
  int progress = 1;
  int sparklines = 0;  ///< of three
  int ranks = 0;       ///< fewer than wanted: ranks share rows
  int legend = 0;
  int budget = 0;
  int advice = 0;
  int events = 0;
  bool gaps = false;  ///< an empty row between parts

  int total() const;
};

/// Shares out `rows`, at least 2; 0: as many as are wanted. Ranks come first, then the budget, sparklines,
/// what to do, events. total() is never above rows.
Heights share_out(const Wanted& wanted, int rows);

}  // namespace penstock::watch
