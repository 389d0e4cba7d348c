// Pictures of a simulated step: one row a rank, time to the right.
#pragma once

#include <string>

#include "parallel/schedule/program.h"
#include "parallel/schedule/simulate.h"

namespace penstock::schedule {

struct TerminalStyle {
  // Columns of the terminal.
  int width = 80;
  // ANSI colours; without them letters alone tell the actions apart.
  bool color = false;
};

// F, I, W and B, with the micro-batch where there is room; lower case for odd chunks and for the second copy;
// "." is idle time. Ends with a legend.
std::string draw_terminal(const Program& program, const Timeline& timeline, const TerminalStyle& style);

// A self-contained SVG.
std::string draw_svg(const Program& program, const Timeline& timeline, const std::string& title);

}  // namespace penstock::schedule
