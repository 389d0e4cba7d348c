#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "parallel/schedule/draw.h"

namespace penstock::schedule {

namespace {

constexpr double left = 52;
constexpr double top = 30;
constexpr double row_height = 24;
constexpr double bar_height = 20;
constexpr double drawn_width = 900;
// A number is written into a bar that has room for its digits.
constexpr double digit_width = 7;

struct Paint {
  const char* fill;
  const char* ink;
};

// By op, then lighter for odd chunks and the second copy; dark enough to be told apart in print.
constexpr std::array<std::array<Paint, 2>, 4> paints{{
    {{{"#2f5fa8", "#fff"}, {"#9dbbe6", "#000"}}},  // F
    {{{"#1d8a8a", "#fff"}, {"#93d3d3", "#000"}}},  // I
    {{{"#c98a12", "#000"}, {"#f1cf8b", "#000"}}},  // W
    {{{"#3f8f4f", "#fff"}, {"#a5d6ae", "#000"}}},  // B
}};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string draw_svg(const Program& program, const Timeline& timeline, const std::string& title) {
  const Schedule& schedule = program.schedule;
  double end = 0;
  // All bars of a kind are one path, which keeps the file small.
  std::array<std::array<std::string, 2>, 4> bars;
  std::array<std::array<std::string, 2>, 4> numbers;
  for (const auto& spans : timeline.spans) {
    for (const Span& span : spans) end = std::max(end, span.end);
  }
  const double scale = end > 0 ? drawn_width / end : 1;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& list = program.ranks[static_cast<size_t>(rank)].instructions;
    const double y = top + rank * row_height;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].kind != InstructionKind::compute) continue;
      const Span& span = timeline.spans[static_cast<size_t>(rank)][i];
      const double x = left + span.start * scale;
      const double width = (span.end - span.start) * scale;
      const Action& action = list[i].action;
      const auto op = static_cast<size_t>(action.op);
      const size_t odd = static_cast<size_t>(action.stage / schedule.ranks) % 2;
      // A hair of background between neighbours.
      bars[op][odd] += fmt::format("M{:.1f} {:.0f}h{:.1f}v{:.0f}h-{:.1f}z", x, y, std::max(0.2, width - 0.6),
                                   bar_height, std::max(0.2, width - 0.6));
      const std::string number = std::to_string(action.micro_batch);
      if (width < digit_width * static_cast<double>(number.size()) + 2) continue;
      numbers[op][odd] +=
          fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\">{}</text>", x + width / 2, y + 14, number);
    }
  }
  const double height = top + schedule.ranks * row_height + 30;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<title>{2}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{3:.0f}\" y=\"18\" "
      "font-size=\"13\">{2}</text>\n",
      left + drawn_width + 12, height, escaped(title), left);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const double y = top + rank * row_height;
    svg += fmt::format(
        "<text x=\"4\" y=\"{0:.0f}\">rank {1}</text><path fill=\"#eee\" d=\"M{2:.0f} "
        "{3:.0f}h{4:.0f}v{5:.0f}h-{4:.0f}z\"/>\n",
        y + 14, rank, left, y, drawn_width, bar_height);
  }
  std::string legend;
  double legend_x = left;
  const double legend_y = top + schedule.ranks * row_height + 8;
  for (size_t op = 0; op < bars.size(); ++op) {
    for (size_t odd = 0; odd < 2; ++odd) {
      if (bars[op][odd].empty()) continue;
      const Paint& paint = paints[op][odd];
      svg += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", paint.fill, bars[op][odd]);
      if (!numbers[op][odd].empty()) {
        svg += fmt::format("<g fill=\"{}\" text-anchor=\"middle\">{}</g>\n", paint.ink, numbers[op][odd]);
      }
      const char* which = odd == 0 ? "" : schedule.copies > 1 ? ", second copy" : ", odd chunk";
      legend += fmt::format(
          "<path fill=\"{}\" d=\"M{:.0f} {:.0f}h10v10h-10z\"/><text x=\"{:.0f}\" y=\"{:.0f}\">{}{}</text>",
          paint.fill, legend_x, legend_y, legend_x + 14, legend_y + 9, letter(static_cast<Op>(op)), which);
      legend_x += 110;
    }
  }
  return svg + legend + "\n</svg>\n";
}

}  // namespace penstock::schedule
