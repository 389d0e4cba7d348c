#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "parallel/schedule/draw.h"

namespace penstock::schedule {

namespace {

constexpr int max_rows = 128;

const char* color(Op op, bool odd) {
  switch (op) {
    case Op::forward:
      return odd ? "\x1b[30;104m" : "\x1b[97;44m";
    case Op::backward_input:
      return odd ? "\x1b[30;106m" : "\x1b[30;46m";
    case Op::backward_weight:
      return odd ? "\x1b[30;103m" : "\x1b[30;43m";
    case Op::backward:
      return odd ? "\x1b[30;102m" : "\x1b[30;42m";
  }
  return "";
}

// Chunks 1, 3, … of a rank, and the second copy, are drawn apart.
bool is_odd(const Schedule& schedule, int stage) {
  return (stage / schedule.ranks) % 2 != 0;
}

double end_of_actions(const Program& program, const Timeline& timeline) {
  double end = 0;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (size_t i = 0; i < timeline.spans[rank].size(); ++i) {
      if (program.ranks[rank].instructions[i].kind == InstructionKind::compute) {
        end = std::max(end, timeline.spans[rank][i].end);
      }
    }
  }
  return end;
}

// "F12---", cut or padded to `columns`.
std::string cell(const Action& action, bool odd, int columns) {
  const char mark = letter(action.op);
  std::string text(1, odd ? static_cast<char>(std::tolower(mark)) : mark);
  const std::string number = std::to_string(action.micro_batch);
  if (static_cast<int>(number.size()) < columns) text += number;
  text.resize(static_cast<size_t>(columns), columns > 1 ? '-' : text[0]);
  return text;
}

std::string row(const Program& program, const Timeline& timeline, size_t rank, int columns, double end,
                bool colored) {
  std::string text;
  int at = 0;
  const auto column = [&](double time) {
    return std::min(columns, static_cast<int>(std::lround(time / end * columns)));
  };
  for (size_t i = 0; i < timeline.spans[rank].size(); ++i) {
    const Instruction& instruction = program.ranks[rank].instructions[i];
    if (instruction.kind != InstructionKind::compute) continue;
    const int from = column(timeline.spans[rank][i].start);
    const int to = column(timeline.spans[rank][i].end);
    if (to <= at) continue;  // less than a column is left of it
    if (from > at) text.append(static_cast<size_t>(from - at), '.');
    const bool odd = is_odd(program.schedule, instruction.action.stage);
    const std::string drawn = cell(instruction.action, odd, to - std::max(from, at));
    text += colored ? color(instruction.action.op, odd) + drawn + "\x1b[0m" : drawn;
    at = to;
  }
  return text.append(static_cast<size_t>(columns - at), '.');
}

}  // namespace

std::string draw_terminal(const Program& program, const Timeline& timeline, const TerminalStyle& style) {
  const Schedule& schedule = program.schedule;
  const int label = 6 + static_cast<int>(std::to_string(schedule.ranks - 1).size());
  const int columns = std::max(8, style.width - label);
  const double end = end_of_actions(program, timeline);
  if (end <= 0) return "(nothing takes any time)\n";
  std::string text;
  bool split = false;
  bool whole = false;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    for (const Action& action : schedule.actions[static_cast<size_t>(rank)]) {
      split = split || action.op == Op::backward_input;
      whole = whole || action.op == Op::backward;
    }
    if (rank >= max_rows) continue;
    text += fmt::format("{:<{}}", fmt::format("rank {}", rank), label);
    text += row(program, timeline, static_cast<size_t>(rank), columns, end, style.color) + "\n";
  }
  if (schedule.ranks > max_rows) text += fmt::format("(and {} more ranks)\n", schedule.ranks - max_rows);
  text += "F forward";
  if (whole) text += ", B backward";
  if (split) text += ", I input gradient, W weight gradient";
  if (schedule.copies > 1) text += "; lower case: the second copy";
  if (schedule.chunks > 1) text += "; lower case: odd chunks";
  return text + "; . idle\n";
}

}  // namespace penstock::schedule
