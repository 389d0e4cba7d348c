#pragma once

#include <cstdio>

namespace penstock::report {

/// Whether lines may be redrawn on a stream, and how wide they may be.
struct Terminal {
  bool redraw = false;
  int columns = 80;
};

/// Redrawing needs a terminal that is not TERM=dumb, NO_COLOR not set, and no mpirun in between.
Terminal terminal_of(std::FILE* stream);

}  // namespace penstock::report
